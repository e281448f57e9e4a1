"""What one direction says of a large rule: entry by entry, or by sums over cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradproof.checks.lanes import Lanes
from gradproof.checks.rounding import SAFETY
from gradproof.checks.slabs import folded, slabs, spread, within
from gradproof.numdiff import pooled
from gradproof.rule import Bulk, BulkRule
from gradproof.space import underflow, unit

VISIBLE = 1e-3  # smaller entries have no relative limit of their own
# Of several answers to one question, how far sums of independent roundings may reach.
RANDOM = 4.0
SYSTEMATIC = 4.0  # roundings that may be the same in every entry, as of a constant
WEIGHT = 1.5  # the largest |ȳ|


class Odd(Exception):
    """Something that only the long way can judge."""


@dataclass(frozen=True, eq=False)
class Probes:
    """The rule's answers to two cotangents, and the rounding that they may carry.

    ``spread`` is how far the first answer moved when the question was shaken by about
    one ulp (empty where that is nowhere above what is usual); ``usual`` is what is usual
    of that, and ``share`` the same relative to the entries, by leaf. ``tops`` are the
    largest |x̄|; slopes and answers are compared in the precision ``work``.
    """

    rule: BulkRule
    ybars: tuple[list[Any], list[Any]]
    xbars: tuple[list[Any], list[Any]]
    spread: list[Any]
    usual: list[float]
    share: list[float]
    tops: list[float]
    work: str

    def own(self, k: int, at: Any, size: Any, *, alone: bool) -> Any:
        """The rounding of a piece of x̄ of leaf ``k``, whose entries have that ``size``.

        ``alone``: each entry is computed by itself, so that a small one is as exact as
        a large one.
        """
        precision = self.rule.domain.leaves[k].precision
        room = size * self.share[k] if alone else (0.0 * size).clip(min=self.usual[k])
        if self.spread:
            shown = self.rule.cast(self.spread[k][at], self.work)
            room = self.rule.xp.fmax(room, shown)
        room *= SAFETY
        room += size * (SAFETY * unit(precision))
        room += underflow(precision)
        return room


@dataclass(frozen=True, eq=False)
class Along:
    """Values of a function at the steps along a tangent, by outputs.

    ``us`` has the tangent by the number of the leaf; ``noisy`` is the noise of the
    values in units of its floor; ``tops`` are the largest |f|; a slope is ``loose``
    when its bound is above that share of it, as at a kink.
    """

    source: Bulk
    step: pooled.Step
    base: Sequence[Any]
    moved: Sequence[Sequence[Any]]
    us: dict[int, Any]
    tops: list[float]
    noisy: float
    loose: float

    def values(self, k: int, at: Any, work: str) -> tuple[pooled.Values, Any]:
        """Of a piece of output ``k``: what four values say, and their noise."""
        cast = self.source.cast
        start = cast(self.base[k][at], "float64")
        v = self.step.values(start, *(cast(m[k][at], "float64") for m in self.moved))
        first = cast(v.first, work)
        second = first if v.second is v.first else cast(v.second, work)
        v = pooled.Values(first, second, cast(v.bend, work))
        noise = self.step.floor(v.first, cast(start, work), self.tops[k], self.noisy)
        return v, noise


@dataclass(eq=False)
class Worth:
    """What the comparison could have seen, as relative errors."""

    uniform: list[float] = field(default_factory=list)
    row: list[float] = field(default_factory=list)
    entry: list[float] = field(default_factory=list)
    pairs: int = 0
    entries: int = 0
    left_out: int = 0

    def add(self, other: Worth) -> None:
        """What another direction could have seen."""
        self.uniform += other.uniform
        self.row += other.row
        self.entry += other.entry
        self.pairs += other.pairs
        self.entries += other.entries
        self.left_out += other.left_out


def _plus(total: Any, part: Any) -> Any:
    """A sum that begins with None: to add to 0 is a pass over all entries."""
    return part if total is None else total + part


def each(p: Probes, a: Along, k: int, usual: float, worth: Worth) -> None:
    """An elementwise leaf ``k``: every entry from one direction.

    ``usual`` is a slope of ordinary size. Raises ``Odd`` where an entry disagrees.
    """
    xp, cast, leaf = p.rule.xp, p.rule.cast, p.rule.domain.leaves[k]
    visible = VISIBLE * p.tops[k]
    least, most, left_out = float("inf"), 0.0, 0
    total = _Total(unit(leaf.precision))
    for at in slabs(leaf.view_shape):
        got, second, u = (cast(t[k][at], p.work) for t in (*p.xbars, a.us))
        size, moved = abs(got), got * u
        own = p.own(k, at, size, alone=True)
        own_u = own * abs(u)
        expected, known, sharp = None, None, size >= visible
        for j in range(len(a.base)):
            value, bound = a.step.slope(*a.values(j, at, p.work))
            w = cast(p.ybars[0][j][at], p.work)
            fine = bound <= a.loose * abs(value).clip(min=usual)
            left_out += math.prod(fine.shape) - int(fine.sum())
            sharp &= fine
            expected = _plus(expected, w * value)
            known = _plus(known, abs(w) * bound)
        total.add(moved, expected, known, own_u)
        room, gap = known + own_u, abs(moved - expected)
        if not bool((gap <= room).all()):
            raise Odd
        if len(a.base) == 1:  # an elementwise rule answers every ȳ with one slope
            across = abs(second * w - got * cast(p.ybars[1][0][at], p.work))
            if not bool((across <= own * (RANDOM * WEIGHT)).all()):
                raise Odd
        ratio = (room + gap) / abs(moved)
        most = max(most, float(xp.where(sharp, ratio, 0.0).max()))
        least = min(least, float(xp.where(sharp, ratio, float("inf")).min()))
    worth.entry.append(most)
    worth.uniform += [least, total.judged()]
    worth.pairs += len(p.ybars)
    worth.entries += leaf.size - left_out
    worth.left_out += left_out


@dataclass(eq=False)
class _Total:
    """<x̄, u> against <ȳ, J u> over every piece of an elementwise leaf."""

    unit: float
    got: float = 0.0
    expected: float = 0.0
    known: float = 0.0
    own: float = 0.0

    def add(self, moved: Any, expected: Any, known: Any, own: Any) -> None:
        """One piece."""
        self.got += float(moved.sum())
        self.expected += float(expected.sum())
        self.known += float(known.sum())
        self.own += float((own * own).sum())

    def judged(self) -> float:
        """The relative error that would have been seen; ``Odd`` where it is one."""
        room = (
            self.known + RANDOM * self.own**0.5 + SYSTEMATIC * self.unit * abs(self.got)
        )
        gap = abs(self.got - self.expected)
        if not gap <= room:
            raise Odd
        return (room + gap) / abs(self.expected) if self.expected else float("inf")


def by_cells(p: Probes, a: Along, lane: Lanes, worth: Worth) -> None:
    """<x̄, u> against <ȳ, J u> of every cell, and of all, for both cotangents.

    Raises ``Odd`` where a number disagrees.
    """
    sums, noise = expected(p, a, lane)
    got, own = answered(p, a, lane)
    xp, rooms, ratios = p.rule.xp, [], []
    shared = SYSTEMATIC * p.rule.domain.unit
    for v, g in zip(sums, got, strict=True):
        value, bound = a.step.slope(v, noise**0.5)
        room = bound + RANDOM * own**0.5 + shared * abs(g)
        gap = abs(g - value)
        if not bool((gap <= room).all()):
            raise Odd
        rooms.append(room + gap)
        ratios.append((room + gap) / abs(value))
        whole = pooled.Values(v.first.sum(), v.second.sum(), v.bend.sum())
        value, bound = a.step.slope(whole, noise.sum() ** 0.5)
        room = bound + RANDOM * own.sum() ** 0.5 + shared * abs(g.sum())
        gap = abs(g.sum() - value)
        if not bool(gap <= room):
            raise Odd
        worth.pairs += 1
        worth.uniform.append(float((room + gap) / abs(value)))
    best = xp.fmin(*ratios)
    if lane.axes:
        live = xp.isfinite(best)
        worth.row += [float(best[live].max())] * bool(live.any())
    room = xp.fmin(*rooms)
    for k in a.us:
        worth.entry.append(_one_entry(p, a, k, room, lane))


def expected(p: Probes, a: Along, lane: Lanes) -> tuple[list[pooled.Values], Any]:
    """By cotangent the sums of each cell's weighted values, and their noise squared."""
    xp, zeros = p.rule.xp, p.rule.zeros
    sums = [[zeros(lane.extents) for _ in range(3)] for _ in p.ybars]
    noise = zeros(lane.extents)
    for j, leaf in enumerate(p.rule.codomain):
        keep = lane.partners[j] if lane.axes else ()
        if keep is None:
            continue
        for at in slabs(leaf.view_shape):
            v, sigma = a.values(j, at, p.work)
            cells = within(at, keep)
            # A few kinks among many outputs are noise to their sum.
            shake = xp.fmax(sigma, abs(v.bend) * (1.0 / a.step.deviation)) * WEIGHT
            noise[cells] += folded(xp, shake * shake, keep)
            for out, ybar in zip(sums, p.ybars, strict=True):
                w = p.rule.cast(ybar[j][at], p.work)
                parts = (
                    (v.first, v.bend) if a.step.near else (v.first, v.bend, v.second)
                )
                for total, part in zip(out, parts, strict=False):
                    total[cells] += folded(xp, w * part, keep)
    return [pooled.Values(first, second, bend) for first, bend, second in sums], noise


def answered(p: Probes, a: Along, lane: Lanes) -> tuple[list[Any], Any]:
    """By cotangent <x̄, u> of each cell, and the squared rounding that it may carry."""
    xp, cast = p.rule.xp, p.rule.cast
    got = [p.rule.zeros(lane.extents) for _ in p.xbars]
    own = p.rule.zeros(lane.extents)
    for k, tangent in a.us.items():
        for at in slabs(p.rule.domain.leaves[k].view_shape):
            u, cells = cast(tangent[at], p.work), within(at, lane.axes)
            for out, xbar in zip(got, p.xbars, strict=True):
                out[cells] += folded(xp, cast(xbar[k][at], p.work) * u, lane.axes)
            size = abs(cast(p.xbars[0][k][at], p.work))
            part = p.own(k, at, size, alone=False) * u
            own[cells] += folded(xp, part * part, lane.axes)
    return got, own


def _one_entry(p: Probes, a: Along, k: int, room: Any, lane: Lanes) -> float:
    """The largest relative error of a visible entry that its cell leaves room for."""
    xp, cast, leaf = p.rule.xp, p.rule.cast, p.rule.domain.leaves[k]
    least, worst = VISIBLE * p.tops[k], 0.0
    room = cast(room, p.work)
    for at in slabs(leaf.view_shape):
        size = abs(cast(p.xbars[0][k][at], p.work))
        cells = room[within(at, lane.axes)] if lane.axes else room
        here = spread(xp, cells, lane.axes, len(leaf.view_shape))
        ratio = here / (size * abs(cast(a.us[k][at], p.work)))
        worst = max(worst, float(xp.where(size >= least, ratio, 0.0).max()))
    return worst
