"""Derivatives of a primal by differences of its values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gradproof.numdiff import Phi, differentiate, quick
from gradproof.numdiff.types import Array, Codes
from gradproof.oracles.batch import quick_columns
from gradproof.rule import Primal
from gradproof.space import Vector
from gradproof.verdict import Estimate

# The derivative of what a program computes and of what it stands for differ by this
# much at least: constants cut to a dozen digits, special functions good to 1e-9.
RELATIVE = 2.0**-30
# And by so many roundings of the largest output of the same leaf, over the coordinate's
# size: small outputs are often differences of large ones.
ROUNDINGS = 4.0
MOVES = 2.0  # of the same, how far rounding at random moves a value
SHARED = 2.0**-4  # of the rounding of the largest, the least noise of every output
SAMPLE = 1 << 15  # coordinates of which the typical size is taken, at most
REACH = 4.0  # the largest step, in units of a coordinate's scale


@dataclass(frozen=True, eq=False)
class Columns:
    """Derivatives of all m outputs in k single coordinates, each array (m, k).

    ``noise`` has shape (m,): the r.m.s. noise of the outputs' values.
    """

    value: Array
    bar: Array
    bound: Array
    code: Codes
    left: Array
    right: Array
    noise: Vector
    evaluations: int


class Differences:
    """The derivative of a primal at a point, by differences alone.

    ``evaluations`` counts the calls of the primal so far; ``value`` is f at the point.
    """

    def __init__(self, primal: Primal, point: Vector | None = None) -> None:
        """Evaluate f at ``point`` (default: the primal's own)."""
        self.primal = primal
        self.lifted = False
        self.dithered = False
        self._moved: Vector = np.zeros(primal.codomain.size)
        self.method = "central difference"
        self.evaluations = 0
        self.point = primal.domain.snap(primal.point if point is None else point)
        self.unit = max(primal.domain.unit, primal.codomain.unit)
        self.value = self.ask(self.point)
        self._scales = _scales(primal, self.point)
        self._largest = _largest(primal, self.value)

    def ask(self, x: Vector) -> Vector:
        """f(x), counted; NaN where the user's code failed."""
        self.evaluations += 1
        reply = None
        if self.dithered:
            reply = self.primal.rounded(x, self.evaluations, fair=False)
        value = (reply or self.primal.value(x)).value
        if value is None:
            return np.full(self.primal.codomain.size, np.nan)
        return np.asarray(value, dtype=np.float64)

    def dither(self, moved: Vector) -> None:
        """From now on round at random: stairs of rounding become noise, which is seen.

        ``moved`` is how far that moves each value.
        """
        self.dithered = True
        self._moved = np.where(np.isnan(moved), np.inf, moved)
        self.method = "central difference, rounding at random"
        self.value = self.ask(self.point)

    def scales(self) -> Vector:
        """The step scale of each coordinate, a power of two.

        A quarter of the larger of |x_j| and the typical magnitude of its leaf; of 1
        where the whole leaf is 0.
        """
        return self._scales.copy()

    def direction(self, u: Vector, plan: str = "quick") -> Estimate:
        """J u, of length ``codomain.size``; ``u`` is in absolute units.

        Where x + t·u is not representable in the domain's precision, the rounding of
        the displaced points is part of the noise.
        """
        u = np.asarray(u, dtype=np.float64)

        def at(t: float) -> Vector:
            return self.ask(self.primal.domain.snap(self.point + t * u))

        return self._along(u, plan, at)

    def columns(self, cols: np.ndarray, plan: str = "quick") -> Columns:
        """Derivatives in the coordinates ``cols``, each with a step of its own.

        Displacements are divided by what was really moved after ``Space.snap``.
        """
        cols = np.asarray(cols, dtype=np.int64)
        before = self.evaluations
        reach = REACH * self._scales[cols]
        first = quick_columns(
            self.ask, self.primal.domain, self.point, self.value, cols, reach, self.unit,
            self._noise(),
        )  # fmt: skip
        noise = first.noise.max(axis=0, initial=0.0)
        out = Columns(
            first.value.T, first.bar.T, first.bound.T, first.code.T,
            first.left.T, first.right.T, noise, 0,
        )  # fmt: skip
        if plan != "quick":
            out = self._each(cols, out.value, "thorough")
        elif first.excess > quick.NOISY and out.value.size < quick.MANY:
            out = self._each(cols, out.value, "quick")
        else:
            room = self._room(out.value, self._scales[cols])
            out = replace(out, bound=out.bound + room, bar=out.bar + 0.25 * room)
        return replace(out, evaluations=self.evaluations - before)

    def _noise(self) -> Vector:
        """Small outputs are often differences of large ones, and as noisy as these."""
        return SHARED * self.unit * self._largest

    def _room(self, value: Array, size: Vector) -> Array:
        """What no difference of values (m, k) can be sharper than; t of size (k,)."""
        known = np.where(np.isfinite(value), np.abs(value), 0.0)
        least = np.fmax(ROUNDINGS * self.unit * self._largest, MOVES * self._moved)
        return RELATIVE * known + least[:, None] / size

    def _each(self, cols: np.ndarray, slopes: Array, plan: str) -> Columns:
        """Every column on its own; ``slopes`` are rough answers, shape (m, k)."""
        x, domain = self.point, self.primal.domain
        found = []
        for k, j in enumerate(cols.tolist()):
            u = np.zeros(len(x))
            u[j] = 1.0
            slope = np.where(np.isfinite(slopes[:, k]), slopes[:, k], 0.0)

            def at(
                t: float, u: Vector = u, j: int = j, slope: Vector = slope
            ) -> Vector:
                y = domain.snap(x + t * u)
                missed = t - (y[j] - x[j])
                value = self.ask(y)
                # What snapping left undone is so small that its own slope will do.
                return value + missed * slope if missed else value

            found.append(self._along(u, plan, at))
        m = len(self.value)

        def stack(name: str) -> Array:
            return np.array([getattr(e, name) for e in found]).reshape(-1, m).T

        return Columns(
            stack("value"), stack("bar"), stack("bound"), stack("code").astype(np.int8),
            stack("left"), stack("right"), stack("noise").max(axis=1, initial=0.0), 0,
        )  # fmt: skip

    def _along(self, u: Vector, plan: str, at: Phi) -> Estimate:
        """The derivative of t ↦ f(x + t·u), by the engine."""
        before = self.evaluations
        moving = u != 0
        if not moving.any():
            zero = np.zeros_like(self.value)
            code = np.zeros(len(zero), dtype=np.int8)
            return Estimate(zero, zero, zero, zero, code, method=self.method)
        domain = self.primal.domain
        size = np.abs(u[moving])
        ratio = self._scales[moving] / size
        low, high = _range(domain.lows(), domain.highs(), self.point, u)
        out = differentiate(
            at,
            reach=REACH * float(ratio.min()),
            grain=float((domain.spacing(self.point)[moving] / size).max()),
            unit=self.unit,
            low=low,
            high=high,
            plan="quick" if plan == "quick" else "thorough",
            start=self.value,
            noise=self._noise() if len(self.value) >= quick.MANY else None,
        )
        room = self._room(out.value[:, None], ratio[[ratio.argmin()]])[:, 0]
        return replace(
            out,
            bound=out.bound + room,
            bar=out.bar + 0.25 * room,
            evaluations=self.evaluations - before,
            method=self.method,
        )


def _largest(primal: Primal, value: Vector) -> Vector:
    """For each output, the largest finite |value| of its leaf."""
    out = np.zeros(len(value))
    for leaf in primal.codomain:
        size = np.abs(value[leaf.slice])
        out[leaf.slice] = np.where(np.isfinite(size), size, 0.0).max(initial=0.0)
    return out


def _scales(primal: Primal, x: Vector) -> Vector:
    out = np.empty(len(x))
    for leaf in primal.domain:
        size = np.abs(x[leaf.slice])
        size = np.where(np.isfinite(size), size, 0.0)
        some = size[size > 0]
        some = some[:: max(1, len(some) // SAMPLE)]
        typical = float(np.median(some)) if len(some) else 1.0
        out[leaf.slice] = np.maximum(size, typical)
    exponent = np.frexp(out)[1] - 1
    return np.asarray(np.ldexp(0.25, exponent))


def _range(lows: Vector, highs: Vector, x: Vector, u: Vector) -> tuple[float, float]:
    """How far t may go so that x + t·u stays inside the domain's bounds."""
    if np.isneginf(lows).all() and np.isposinf(highs).all():
        return -np.inf, np.inf
    with np.errstate(all="ignore"):
        a, b = (lows - x) / u, (highs - x) / u
    down, up = np.where(u > 0, a, b)[u != 0], np.where(u > 0, b, a)[u != 0]
    return (
        min(0.0, float(down.max(initial=-np.inf))),
        max(0.0, float(up.min(initial=np.inf))),
    )
