"""Directions: the measured J u of one tangent u, and the numbers that a rule owes for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gradproof.oracles import Differences
from gradproof.rule import Primal, Reply, Rule
from gradproof.space import Leaf, Mask, Space, Vector, unit
from gradproof.verdict import Code, Direction, Estimate, Probe

MOSTLY = 0.75  # of the outputs must be sharp for the others to be left out
DOUBTFUL = 1 << 12  # outputs that are measured thoroughly, at most
SAMPLE = 1 << 15  # entries of which a typical size is taken


@dataclass(frozen=True, eq=False)
class Slope:
    """J u as measured, and the outputs whose derivative along u is known."""

    tangent: Vector
    estimate: Estimate
    known: Mask

    @property
    def whole(self) -> bool:
        """Whether no output is left out."""
        return bool(self.known.all())


def slope(oracle: Differences, u: Vector, *, closer: bool = False) -> Slope:
    """J u; with ``closer``, a few doubtful outputs are measured thoroughly."""
    e = oracle.direction(u, "quick")
    doubt = doubtful(e)
    if closer and doubt.any():
        e = _closer(oracle, u, e, np.flatnonzero(doubt))
        doubt = doubtful(e)
    known = ~doubt
    if known.mean() < MOSTLY:  # noise, rather than a kink here and there
        known = (e.code == Code.OK) & np.isfinite(e.value)
    return Slope(u, e, known)


def doubtful(e: Estimate) -> Mask:
    """Outputs without a derivative, or with a bound that would hide a part in 1000."""
    size = np.abs(np.nan_to_num(e.value))
    some = size[:: max(1, len(size) // SAMPLE)]
    usual = float(np.median(some[some > 0])) if (some > 0).any() else 0.0
    with np.errstate(invalid="ignore"):
        loose: Mask = ~(e.bound <= 1e-3 * np.maximum(size, usual))
    out: Mask = loose | (e.code != Code.OK) | ~np.isfinite(e.value)
    return out


def _closer(oracle: Differences, u: Vector, e: Estimate, rows: np.ndarray) -> Estimate:
    """``e`` with the outputs ``rows`` measured thoroughly, where they are few."""
    if len(rows) > DOUBTFUL:
        return e
    part = Differences(Rows(oracle.primal, rows), oracle.point)
    t = part.direction(u, "thorough")
    oracle.evaluations += part.evaluations
    value, bar, bound = e.value.copy(), e.bar.copy(), e.bound.copy()
    code = e.code.copy()
    value[rows], bar[rows], bound[rows], code[rows] = t.value, t.bar, t.bound, t.code
    return replace(e, value=value, bar=bar, bound=bound, code=code)


def pull(rule: Rule, x: Vector, ybar: Vector) -> Vector:
    """The rule's x̄; NaN where its code failed."""
    value = rule.vjp(x, ybar).value
    return np.full(rule.primal.domain.size, np.nan) if value is None else value


def weighted(rule: Rule, along: Slope, probe: Probe) -> tuple[Vector, Vector]:
    """ȳ without the outputs that have no derivative, and the rule's x̄ for that."""
    if along.whole:
        return probe.cotangent, probe.got
    weight = np.where(along.known, probe.cotangent, 0.0)
    got = pull(rule, probe.point, weight)
    # At an infinite slope a weight of 0 makes NaN of what is left out.
    return weight, np.where(np.isinf(probe.got) & np.isnan(got), 0.0, got)


def directions(
    rule: Rule,
    oracle: Differences,
    along: Slope,
    probes: list[Probe],
    plan: str = "quick",
) -> list[Direction]:
    """<x̄, u> against <ȳ, J u> for each probe's cotangent ȳ.

    Outputs without a derivative along u (a kink between the steps) are left out: then
    the rule is asked again with ȳ zero there. The thorough plan differences the numbers
    <ȳ, f> themselves, so that its cost does not grow with the outputs.
    """
    e, known, u = along.estimate, along.known, along.tangent
    code = Code.OK if known.any() else Code(int(e.code.max(initial=0)))
    asked = [weighted(rule, along, p) for p in probes]
    value = e.value if along.whole else np.where(known, e.value, 0.0)
    if plan == "quick":
        numbers, bars, bounds = _summed(along, value, [w for w, _ in asked])
    else:
        few = Differences(Projected(oracle.primal, [w for w, _ in asked]), oracle.point)
        t = few.direction(u, "thorough")
        numbers, bars, bounds = (list(map(float, a)) for a in (t.value, t.bar, t.bound))
        code = Code(int(t.code.max(initial=code)))
        oracle.evaluations += few.evaluations
    out = []
    for k, p in enumerate(probes):
        weight, got = asked[k]
        got = np.where(u != 0, got, 0.0)  # 0 · NaN of what was not moved
        moved = p.own * np.abs(u)
        rounding = min(float(moved.sum()), 4.0 * float(np.linalg.norm(moved)))
        out.append(
            Direction(
                tangent=u,
                cotangent=p.cotangent,
                got=float(got @ u),
                expected=numbers[k],
                bar=bars[k],
                bound=bounds[k] + rounding,
                scale=float(np.abs(weight * value).sum()),
                code=code,
                left_out=int(known.size - np.count_nonzero(known)),
            )
        )
    return out


def _summed(
    along: Slope, value: Vector, weights: list[Vector]
) -> tuple[list[float], list[float], list[float]]:
    """<ȳ, J u> of the measured outputs, with bar and bound."""
    e, known = along.estimate, along.known
    bar = e.bar if along.whole else np.where(known, e.bar, 0.0)
    bound = e.bound if along.whole else np.where(known, e.bound, 0.0)
    return (
        [float(w @ value) for w in weights],
        [float(np.linalg.norm(w * bar)) for w in weights],
        [float(np.abs(w) @ bound) for w in weights],
    )


class _Part(Primal):
    """What is left of a primal when its outputs are too many to fit curves to."""

    def __init__(self, whole: Primal, size: int) -> None:
        precision = max(whole.codomain, key=lambda leaf: unit(leaf.precision)).precision
        self.whole = whole
        self.domain, self.point = whole.domain, whole.point
        self.codomain = Space.of([Leaf("out", (size,), precision)])

    def part(self, value: Vector) -> Vector:
        raise NotImplementedError

    def value(self, x: Vector) -> Reply:
        reply = self.whole.value(x)
        return reply if reply.value is None else Reply(self.part(reply.value))


class Projected(_Part):
    """The numbers <ȳ, f(x)>; outputs of weight zero may be anything."""

    def __init__(self, whole: Primal, weights: list[Vector]) -> None:
        """``weights`` are the cotangents ȳ."""
        super().__init__(whole, len(weights))
        self.weights = weights
        self.holes = [w == 0 for w in weights]
        self.full = [not hole.any() for hole in self.holes]

    def part(self, value: Vector) -> Vector:
        """<ȳ, f> for each ȳ."""
        numbers = zip(self.weights, self.holes, self.full, strict=True)
        return np.array(
            [
                w @ (value if full else np.where(hole, 0.0, value))
                for w, hole, full in numbers
            ]
        )


class Rows(_Part):
    """Some outputs only."""

    def __init__(self, whole: Primal, rows: np.ndarray) -> None:
        """``rows`` are coordinates of the codomain."""
        super().__init__(whole, len(rows))
        self.rows = rows

    def part(self, value: Vector) -> Vector:
        """Those outputs."""
        return np.asarray(value[self.rows])
