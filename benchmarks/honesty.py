"""Do the bars hold? Numerical derivatives of functions whose derivatives are known.

    python benchmarks/honesty.py [--pairs 1100] [--peers 60] [--seed 1]

Ten classes of function and point, all at one setting of the engine; each pair is a
function of one variable, drawn at random, with its derivative from the same formula in
extended precision. For every class: how often the true error is within the bar and
within the bound, the largest true error over bound, the undecided, the median relative
error and bound, the calls. Then the same for numdifftools, scipy.differentiate, jacobi
and Ridders' method on the first pairs of every class. The peers are asked for the
derivative of t -> f(x + reach t) at 0, so that they are told the scale, as ours is; and
they run at their default settings.

Exit code 1 when a bound was exceeded, or a bar in more than 5 %, or more than 3 % are
undecided outside the classes "near a kink" and "near an edge".
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.numdiff import differentiate
from gradproof.space import _to_bfloat16
from gradproof.verdict import Code

Number = Any  # np.float32, np.float64 or np.longdouble: the formulas serve all three

CLASSES = (
    "clean", "noise 1e-8", "noise 1e-4", "float32", "bfloat16",
    "frequency x50", "scales", "offset 1e9", "near a kink", "near an edge",
)  # fmt: skip
EXEMPT = ("near a kink", "near an edge")  # from the limit on the undecided

EXTENDED = np.longdouble


# Functions: sums and products of three terms a g(b x + c), with their derivatives.


def _logistic(z: Number) -> Number:
    return 1 / (1 + np.exp(-z))


TERMS: tuple[tuple[Callable[[Number], Number], Callable[[Number], Number]], ...] = (
    (np.sin, np.cos),
    (lambda z: np.exp(z / 2), lambda z: np.exp(z / 2) / 2),
    (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    (lambda z: np.logaddexp(z, z.dtype.type(0)), _logistic),
    (lambda z: 1 / (1 + z * z), lambda z: -2 * z / (1 + z * z) ** 2),
    (lambda z: z * z * z / 8, lambda z: 3 * z * z / 8),
    (
        lambda z: np.cos(z) * np.exp(-z * z / 8),
        lambda z: -(np.sin(z) + z / 4 * np.cos(z)) * np.exp(-z * z / 8),
    ),
    (lambda z: z, lambda z: z * 0 + 1),
)
WAVES = (0, 0, 2, 0, 4, 0, 2, 4)  # those that stay bounded at 50 times the frequency
EDGES: tuple[tuple[Callable[[Number], Number], Callable[[Number], Number]], ...] = (
    (np.sqrt, lambda x: 1 / (2 * np.sqrt(x))),
    (np.log, lambda x: 1 / x),
    (lambda x: x * np.sqrt(x), lambda x: 3 * np.sqrt(x) / 2),
)


@dataclass(frozen=True)
class Smooth:
    """Three terms, added up, or the first two multiplied."""

    kinds: tuple[int, ...]
    coefficients: np.ndarray  # rows a, b, c
    product: bool

    @classmethod
    def draw(cls, rng: np.random.Generator, frequency: float = 1.0) -> Smooth:
        """Terms of frequency around one, times ``frequency``."""
        kinds = rng.integers(0, len(TERMS), 3)
        if frequency > 1:
            kinds = np.array(WAVES)[kinds]
        a = rng.normal(size=3) + 0.1
        b = rng.uniform(0.5, 2.5, 3) * frequency
        c = rng.uniform(-2, 2, 3)
        table = np.round(np.array([a, b, c]), 3)
        return cls(tuple(kinds.tolist()), table, bool(rng.random() < 0.3))

    def _parts(self, x: Number) -> tuple[list[Number], list[Number]]:
        values, slopes = [], []
        for kind, (a, b, c) in zip(self.kinds, self.coefficients.T, strict=True):
            a, b, c = x.dtype.type(a), x.dtype.type(b), x.dtype.type(c)
            g, dg = TERMS[kind]
            values.append(a * g(b * x + c))
            slopes.append(a * b * dg(b * x + c))
        return values, slopes

    def __call__(self, x: Number) -> Number:
        """The value, in the precision of ``x``."""
        (p, q, r), _ = self._parts(x)
        return p * q + r if self.product else p + q + r

    def slope(self, x: Number) -> Number:
        """The derivative, in the precision of ``x``."""
        (p, q, _), (dp, dq, dr) = self._parts(x)
        return dp * q + p * dq + dr if self.product else dp + dq + dr


@dataclass(frozen=True)
class Pair:
    """A function in the precision that it computes in, a point, and the truth there."""

    f: Callable[[float], float]
    x: float
    true: float
    reach: float
    grain: float
    unit: float


def draw(name: str, rng: np.random.Generator) -> Pair:
    """One pair of a class."""
    g = Smooth.draw(rng, 50.0 if name == "frequency x50" else 1.0)
    x = float(rng.uniform(-2, 2))
    if name == "float32":
        return _in_float32(g, x)
    if name == "bfloat16":
        return _in_bfloat16(g, x)
    if name == "scales":
        return _scaled(g, x, *(2.0 ** np.round(rng.uniform(-27, 27, 2))))
    if name == "near a kink":
        away = 10.0 ** rng.uniform(-9, -1) * rng.choice([-1, 1])
        return _kinked(g, x, x + away, float(rng.normal()) + 0.2)
    if name == "near an edge":
        x = float(10.0 ** rng.uniform(-9, -1))
        return _edged(g, x, int(rng.integers(len(EDGES))), float(rng.normal()) + 0.2)
    if name == "offset 1e9":
        offset = float(rng.choice([1e9, -1e9]))
        return _plain(lambda y: float(g(np.float64(y))) + offset, g, x)
    if name.startswith("noise"):
        level, noise = (
            float(name.split()[1]),
            np.random.default_rng(rng.integers(2**31)),
        )
        return _plain(
            lambda y: float(g(np.float64(y))) * (1 + level * noise.standard_normal()),
            g,
            x,
        )
    return _plain(lambda y: float(g(np.float64(y))), g, x)


def _reach(x: float, typical: float = 1.0) -> float:
    return float(2.0 ** np.floor(np.log2(max(abs(x), typical))))


def _plain(f: Callable[[float], float], g: Smooth, x: float) -> Pair:
    true = float(g.slope(EXTENDED(x)))
    return Pair(f, x, true, _reach(x), float(np.spacing(abs(x))), 2.0**-53)


def _in_float32(g: Smooth, x: float) -> Pair:
    x = float(np.float32(x))
    grain = float(np.spacing(np.float32(abs(x))))
    true = float(g.slope(EXTENDED(x)))
    return Pair(lambda y: float(g(np.float32(y))), x, true, _reach(x), grain, 2.0**-24)


def _in_bfloat16(g: Smooth, x: float) -> Pair:
    def half(v: float) -> float:
        return float(_to_bfloat16(np.array([v]))[0])

    x = half(x)
    grain = float(2.0 ** (np.floor(np.log2(abs(x))) - 7))
    true = float(g.slope(EXTENDED(x)))
    return Pair(
        lambda y: half(float(g(np.float64(half(y))))),
        x,
        true,
        _reach(x),
        grain,
        2.0**-8,
    )


def _scaled(g: Smooth, x: float, of_x: float, of_f: float) -> Pair:
    true = float(g.slope(EXTENDED(x))) * of_f / of_x
    return Pair(
        lambda y: float(g(np.float64(y / of_x))) * of_f, x * of_x, true,
        _reach(x) * of_x, float(np.spacing(abs(x))) * of_x, 2.0**-53,
    )  # fmt: skip


def _kinked(g: Smooth, x: float, kink: float, size: float) -> Pair:
    true = float(g.slope(EXTENDED(x))) + size * np.sign(x - kink)
    return Pair(
        lambda y: float(g(np.float64(y))) + size * abs(y - kink), x, float(true),
        _reach(x), float(np.spacing(abs(x))), 2.0**-53,
    )  # fmt: skip


def _edged(g: Smooth, x: float, kind: int, size: float) -> Pair:
    edge, slope = EDGES[kind]

    def f(y: float) -> float:
        if y < 0:
            return np.nan
        return float(g(np.float64(y))) + size * float(edge(np.float64(y)))

    true = float(g.slope(EXTENDED(x)) + EXTENDED(size) * slope(EXTENDED(x)))
    return Pair(f, x, true, _reach(x), float(np.spacing(x)), 2.0**-53)


# Methods: pair -> derivative, estimated error, bound, undecided, calls.


@dataclass(frozen=True)
class Result:
    """What one method made of one pair."""

    value: float
    bar: float
    bound: float
    undecided: bool
    calls: int


def ours(pair: Pair, plan: str) -> Result:
    """The engine, one output at a time."""
    e = differentiate(
        lambda t: np.array([pair.f(pair.x + t)]),
        reach=pair.reach, grain=pair.grain, unit=pair.unit, plan=plan,
    )  # fmt: skip
    undecided = e.code[0] != Code.OK
    return Result(
        float(e.value[0]), float(e.bar[0]), float(e.bound[0]), bool(undecided),
        e.evaluations,
    )  # fmt: skip


class _Counted:
    """t -> f(x + reach t), for numbers and arrays, counting."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.calls = pair, 0

    def __call__(self, t: Any) -> Any:
        t = np.asarray(t, dtype=float)
        self.calls += t.size
        p = self.pair
        flat = [p.f(p.x + p.reach * float(s)) for s in t.ravel()]
        return np.array(flat).reshape(t.shape)


def peer(name: str, pair: Pair) -> Result:
    """One of the peers, at its defaults; whatever it raises counts as undecided."""
    phi = _Counted(pair)
    try:
        value, error = PEERS[name](phi)
    except Exception:  # a peer may raise anything where a value is not finite
        value, error = np.nan, np.nan
    value, error = value / pair.reach, error / pair.reach
    return Result(value, error, error, not np.isfinite(value), phi.calls)


def _numdifftools(phi: _Counted) -> tuple[float, float]:
    import numdifftools

    out = numdifftools.Derivative(phi, full_output=True)(0.0)
    return float(out.estimate), float(out.error_estimate)


def _scipy(phi: _Counted) -> tuple[float, float]:
    from scipy.differentiate import derivative

    out = derivative(phi, 0.0)
    return float(out.df), float(out.error)


def _jacobi(phi: _Counted) -> tuple[float, float]:
    import jacobi

    value, error = jacobi.jacobi(phi, 0.0)
    return float(np.ravel(value)[0]), float(np.ravel(error)[0])


def _ridders(phi: _Counted, h: float = 0.25, ratio: float = 1.4) -> tuple[float, float]:
    """Ridders (1982): central differences extrapolated until the error grows."""

    def central(h: float) -> float:
        return float(phi(h) - phi(-h)) / (2 * h)

    previous = [central(h)]
    best, error = previous[0], np.inf
    for _ in range(9):
        h /= ratio
        row = [central(h)]
        factor = ratio * ratio
        for j, old in enumerate(previous):
            row.append((row[j] * factor - old) / (factor - 1))
            factor *= ratio * ratio
            change = max(abs(row[j + 1] - row[j]), abs(row[j + 1] - old))
            if change <= error:
                best, error = row[j + 1], change
        if abs(row[-1] - previous[-1]) >= 2 * error:
            break
        previous = row
    return best, error


PEERS = {
    "numdifftools": _numdifftools,
    "scipy": _scipy,
    "jacobi": _jacobi,
    "Ridders": _ridders,
}


# Figures.


@dataclass(frozen=True, eq=False)
class Tally:
    """One method on one class; arrays over its pairs."""

    error: np.ndarray  # relative to the true derivative; inf where undecided
    over_bar: np.ndarray  # true error over bar, of the decided
    over_bound: np.ndarray
    bound: np.ndarray  # relative, of the decided
    undecided: int
    calls: float


def tally(pairs: list[Pair], results: list[Result]) -> Tally:
    """Compare with the truth, which is itself rounded to float64."""
    true = np.array([p.true for p in pairs])
    value = np.array([r.value for r in results])
    decided = np.array([not r.undecided for r in results])
    error = np.abs(value - true)
    room = 2.0**-52 * np.abs(true) + 1e-300
    bar = np.array([r.bar for r in results]) + room
    bound = np.array([r.bound for r in results]) + room
    with np.errstate(invalid="ignore"):
        relative = np.where(decided, error / np.abs(true), np.inf)
    return Tally(
        np.where(np.isnan(relative), np.inf, relative),
        (error / bar)[decided],
        (error / bound)[decided],
        (bound / np.abs(true))[decided],
        int((~decided).sum()),
        float(np.mean([r.calls for r in results])),
    )


def measure(
    plan: str, pairs: int, seed: int, classes: tuple[str, ...] = CLASSES
) -> dict[str, Tally]:
    """The engine on ``pairs`` pairs of every class."""
    out = {}
    for name in classes:
        rng = np.random.default_rng([seed, CLASSES.index(name)])
        drawn = [draw(name, rng) for _ in range(pairs)]
        out[name] = tally(drawn, [ours(p, plan) for p in drawn])
    return out


def failures(found: dict[str, Tally], undecided: float = 0.03) -> list[str]:
    """What was promised and did not hold; empty when all did."""
    out = []
    for name, t in found.items():
        if (t.over_bound > 1).any():
            out.append(f"{name}: {int((t.over_bound > 1).sum())} bounds exceeded")
        if len(t.over_bar) and (t.over_bar > 1).mean() > 0.05:
            out.append(f"{name}: bars exceeded in {(t.over_bar > 1).mean():.1%}")
        if name not in EXEMPT and t.undecided > undecided * len(t.error):
            out.append(f"{name}: {t.undecided} of {len(t.error)} undecided")
    return out


def _show(plan: str, found: dict[str, Tally]) -> None:
    print(f"\n{plan}: {sum(len(t.error) for t in found.values())} pairs")
    print(
        f"{'':14s} {'<= bar':>7s} {'<= bound':>9s} {'worst':>6s} {'undecided':>10s}"
        f" {'median error':>13s} {'median bound':>13s} {'calls':>6s}"
    )
    for name, t in found.items():
        worst = t.over_bound.max(initial=0.0)
        print(
            f"{name:14s} {np.mean(t.over_bar <= 1):7.2%} {np.mean(t.over_bound <= 1):9.2%}"
            f" {worst:6.2f} {t.undecided / len(t.error):10.2%} {np.median(t.error):13.1e}"
            f" {np.median(t.bound):13.1e} {t.calls:6.0f}"
        )
    pooled = np.median(np.concatenate([t.error for t in found.values()]))
    print(f"pooled median error {pooled:.1e}")


def compare(pairs: int, seed: int) -> dict[str, dict[str, Tally]]:
    """Ours and the peers on the first ``pairs`` pairs of every class."""
    out: dict[str, dict[str, Tally]] = {}
    methods: dict[str, Callable[[Pair], Result]] = {
        "gradproof": lambda p: ours(p, "thorough")
    }
    methods |= {name: (lambda p, n=name: peer(n, p)) for name in PEERS}
    for method, run in methods.items():
        out[method] = {}
        for name in CLASSES:
            rng = np.random.default_rng([seed, CLASSES.index(name)])
            drawn = [draw(name, rng) for _ in range(pairs)]
            out[method][name] = tally(drawn, [run(p) for p in drawn])
    return out


def _show_peers(found: dict[str, dict[str, Tally]], pairs: int) -> None:
    print(f"\nmedian relative error, {pairs} pairs a class")
    print(f"{'':14s}" + "".join(f" {m:>13s}" for m in found))
    for name in CLASSES:
        cells = (f" {np.median(t[name].error):13.1e}" for t in found.values())
        print(f"{name:14s}" + "".join(cells))

    def every(get: Callable[[Tally], np.ndarray], method: str) -> np.ndarray:
        return np.concatenate([np.atleast_1d(get(t)) for t in found[method].values()])

    rows: list[tuple[str, Callable[[str], str]]] = [
        ("pooled median", lambda m: f"{np.median(every(lambda t: t.error, m)):.1e}"),
        (
            "> own estimate",
            lambda m: f"{np.mean(every(lambda t: t.over_bar, m) > 1):.1%}",
        ),
        (
            "> 10 times it",
            lambda m: f"{np.mean(every(lambda t: t.over_bar, m) > 10):.1%}",
        ),
        ("no answer", lambda m: f"{sum(t.undecided for t in found[m].values())}"),
        ("calls", lambda m: f"{np.mean([t.calls for t in found[m].values()]):.0f}"),
    ]
    for title, cell in rows:
        print(f"{title:14s}" + "".join(f" {cell(m):>13s}" for m in found))


def main() -> int:
    """Print both tables; 1 when a promise did not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1100, help="of each class")
    parser.add_argument(
        "--peers", type=int, default=60, help="of each class, for peers"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    broken = []
    with np.errstate(all="ignore"):
        for plan in ("thorough", "quick"):
            found = measure(plan, options.pairs, options.seed)
            _show(plan, found)
            # Four values cannot answer where the noise is large; they must say so.
            broken += failures(found, undecided=0.03 if plan == "thorough" else 1.0)
        if options.peers:
            _show_peers(compare(options.peers, options.seed), options.peers)
    print(f"\n{time.perf_counter() - start:.0f} s")
    for line in broken:
        print(f"broken: {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
