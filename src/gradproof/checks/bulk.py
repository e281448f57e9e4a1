"""The pass path for what is large: few calls, few passes, and everything agrees.

Whatever looks odd ends it without an answer: then the rule is asked again the long way,
which alone may accuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradproof.checks import summing
from gradproof.checks.halves import lanes
from gradproof.checks.lanes import Lanes
from gradproof.checks.linearity import LARGE
from gradproof.checks.rounding import FURTHER, HALF, SAME, nearness
from gradproof.checks.slabs import slabs
from gradproof.checks.summing import Along, Odd, Probes, Worth
from gradproof.numdiff import pooled
from gradproof.rule import Bulk, BulkRule, Watched
from gradproof.space import Leaf, Space, unit
from gradproof.verdict import Effect, Form, Limit

TINY = 2.0**-120
ALONE = 4  # leaves that are moved alone, the largest; the others together
SAMPLE = 1 << 14  # entries of which a typical size is taken
FINE = 1e-4  # a uniform error that two steps must show, or four are taken
SHARP = 1e-2  # a larger uniform error must have been visible
ODD = 1e-3  # of the entries may have no sharp derivative, at kinks
LOOSE = {"float64": 1e-3, "float32": 2e-2, "float16": 0.25, "bfloat16": 0.5}

# Cotangents ± an odd number of 64ths in [33, 95], so never 1, and signs; by a random byte.
_GRID = 64
_COTANGENTS = bytes(
    (33 + 2 * (b & 31)) * (1 if b < 128 else -1) % 256 for b in range(256)
)
_SIGNS = bytes(1 if b < 128 else 255 for b in range(256))

# The bits of a number's power of two, by precision.
_POWERS = {
    "float64": ("int64", 0x7FF0000000000000),
    "float32": ("int32", 0x7F800000),
    "bfloat16": ("int16", 0x7F80),
    "float16": ("int16", 0x7C00),
}


@dataclass(frozen=True, eq=False)
class Agreed:
    """Everything agreed, and what that is worth."""

    form: Form
    effects: tuple[Effect, ...]
    outs: list[Any]
    ybar: list[Any]
    xbar: list[Any]
    spread: list[Any]  # how far x̄ moved when shaken by about one ulp
    limits: tuple[Limit, ...]
    worth: Worth
    method: str
    evaluations: int
    vjps: int


def agreed(question: Question) -> Agreed | None:
    """Form, history, linearity, structure and probes; None where anything is odd."""
    try:
        return question.asked()
    except Odd:
        return None


def vague(bulk: Bulk) -> bool:
    """Whether a wrong gradient could hide in the values of an input."""
    some = [bulk.host(bulk.cast(_sample(x), "float64")) for x in bulk.point]
    for leaf, v in zip(bulk.domain, some, strict=True):
        if leaf.size > 1 and ((v == v[0]).all() or np.isin(v, (0.0, 1.0)).all()):
            return True
    pairs = [(a, b) for i, a in enumerate(some) for b in some[i + 1 :]]
    return any(np.array_equal(a, b) for a, b in pairs)


def elsewhere(bulk: BulkRule, rng: np.random.Generator) -> list[Any]:
    """Other values of about the same size, as arrays."""
    q = Question(bulk, rng)
    return [
        x + 2.0 * q.tangent(k) * abs(y)
        for k, (x, y) in enumerate(zip(bulk.point, q.drawn(bulk.domain), strict=True))
    ]


def _sample(a: Any) -> Any:
    flat = a.reshape(-1)
    return flat[:: max(1, len(flat) // SAMPLE)]


def _top(a: Any) -> float:
    """The largest |a|."""
    return max(float(a.max()), -float(a.min())) if math.prod(a.shape) else 0.0


def _same(a: Any, b: Any) -> bool:
    return bool((a == b).all())


class Question:
    """One rule at one point, and what has been measured of it."""

    def __init__(self, rule: BulkRule, rng: np.random.Generator) -> None:
        """Begin with nothing known."""
        self.rule, self.rng, self.xp, self.cast = rule, rng, rule.xp, rule.cast
        self.domain, self.codomain = rule.domain, rule.codomain
        self.evaluations = self.vjps = 0
        self.rooms: dict[tuple[str, int, str], Any] = {}
        self.worth = Worth()
        self.narrow: list[Limit] = []
        self.seen: Watched | None = None
        self.probes: Probes | None = None  # once all is known that they need
        wide = any(a.precision == "float64" for a in (*rule.domain, *rule.codomain))
        self.work = "float64" if wide else "float32"

    def asked(self) -> Agreed:
        """Everything, in order."""
        self._finite(self.rule.point)
        self.ybar = self.drawn(self.codomain)
        self.seen = seen = self.rule.watched(self.ybar)
        if seen.outs is None or seen.grads is None or seen.form is None:
            raise Odd
        self._finite(seen.outs)
        self._finite(seen.grads)
        self.start, self.xbar = seen.outs, seen.grads
        self.tops = [_top(g) for g in self.xbar]
        self._linear()
        spread = self._unbranched(self._shaken())
        usual = [self._usual(k, g) for k, g in enumerate(spread)]
        if self.rule.forget():
            raise Odd
        probes = Probes(
            self.rule, (self.ybar, self.other), (self.xbar, self.second), spread,
            [a for a, _ in usual], [b for _, b in usual], self.tops, self.work,
        )  # fmt: skip
        wide = self._widened(probes) if self.domain.unit > HALF else None
        if wide is None:
            self._choose()
        self.probes = probes = wide or probes
        for group in self._groups():
            self._along(group, probes)
        again = self._value(self.rule, self._moved_by(self.rule, {}))
        for leaf, a, b in zip(self.codomain, again, self.start, strict=True):
            if not all(_same(a[at], b[at]) for at in slabs(leaf.view_shape)):
                raise Odd
        return Agreed(
            seen.form, seen.effects, self.start, self.ybar, self.xbar, spread,
            self._limits() + tuple(self.narrow), self.worth, self.method,
            self.evaluations + 1, self.vjps + 1,
        )  # fmt: skip

    # The vjp alone.

    def _linear(self) -> None:
        """Ask for the vjp of 0, of −kȳ, of ȳ₂ and of ȳ + ȳ₂, all from one graph."""
        self.other = self.drawn(self.codomain)
        factor = -min(LARGE[leaf.precision] for leaf in self.codomain)
        for g in self._pull(self._cotangents(lambda y, _: y * 0.0)):
            if bool(g.any()):
                raise Odd
        scaled = self._pull(self._cotangents(lambda y, _: y * factor))
        if not self._multiple(scaled, factor):
            self._near(scaled, [(factor, self.xbar)])
            if not self._multiple(self._pull(self.ybar), 1.0):
                raise Odd
        del scaled
        self.second = self._pull(self.other)
        self._finite(self.second)
        both = self._pull(self._cotangents(lambda y, z: y + z))
        self._near(both, [(1.0, self.xbar), (1.0, self.second)])

    def _cotangents(self, of: Callable[[Any, Any], Any]) -> list[Any]:
        """What ``of`` makes of both cotangents, written where the last ones were."""
        out = []
        for k, (leaf, y) in enumerate(zip(self.codomain, self.ybar, strict=True)):
            room = self.room("out", k, leaf, leaf.precision)
            for at in slabs(leaf.view_shape):
                room[at] = of(y[at], self.other[k][at])
            out.append(room)
        return out

    def room(self, side: str, k: int, leaf: Leaf, precision: str) -> Any:
        """An array to write on; a fresh one for each number would cost more than it."""
        key = (side, k, precision)
        if key not in self.rooms:
            self.rooms[key] = self.rule.empty(leaf.view_shape, precision)
        return self.rooms[key]

    def _multiple(self, got: list[Any], factor: float) -> bool:
        """Whether ``got`` is ``factor`` times x̄ to the bit."""
        return all(
            _same(g[at], x[at] * factor)
            for g, x, leaf in zip(got, self.xbar, self.domain, strict=True)
            for at in slabs(leaf.view_shape)
        )

    def _near(self, got: Sequence[Any], terms: list[tuple[float, list[Any]]]) -> None:
        """That ``got`` is the sum of ``terms``, to the rounding of another order."""
        for k, leaf in enumerate(self.domain):
            room = SAME[leaf.precision] * sum(abs(f) * self.tops[k] for f, _ in terms)
            for at in slabs(leaf.view_shape):
                left = self.cast(got[k][at], self.work)
                for factor, grads in terms:
                    left = left - factor * self.cast(grads[k][at], self.work)
                if not bool((abs(left) <= room).all()):
                    raise Odd

    def _shaken(self) -> list[Any]:
        """The rounding of x̄: what shaking every number by about one ulp does to it."""
        xs, ys = (
            [self._nudged(side, k, leaf, a)
             for k, (leaf, a) in enumerate(zip(space, arrays, strict=True))]
            for side, space, arrays in (
                ("in", self.domain, self.rule.point),
                ("out", self.codomain, self.ybar),
            )
        )  # fmt: skip
        self.vjps += 1
        got = self.rule.vjp(xs, ys)
        if got is None:
            raise Odd
        self._finite(got)
        self.rooms.clear()  # which the answer may be a view of
        return got

    def _unbranched(self, shaken: list[Any]) -> list[Any]:
        """``shaken``, without the moves of entries that have a branch of their own at x.

        See ``rounding.moves``: where many shaken answers agree with each other and not
        with x̄, what they differ by among themselves is the rounding.
        """
        far = [
            unit(leaf.precision) ** 0.5 * top
            for leaf, top in zip(self.domain, self.tops, strict=True)
        ]
        pieces = [
            (k, at)
            for k, leaf in enumerate(self.domain)
            for at in slabs(leaf.view_shape)
        ]
        pieces = [
            (k, at) for k, at in pieces
            if bool((abs(shaken[k][at] - self.xbar[k][at]) > far[k]).any())
        ]  # fmt: skip
        bounds = [(shaken[k][at], shaken[k][at]) for k, at in pieces]
        alone: list[Any] = []
        for _ in range(FURTHER if pieces else 0):
            more = self._shaken()
            bounds = [
                (self.xp.fmin(low, more[k][at]), self.xp.fmax(high, more[k][at]))
                for (k, at), (low, high) in zip(pieces, bounds, strict=True)
            ]
            alone = []
            for (k, at), (low, high) in zip(pieces, bounds, strict=True):
                got, width = self.xbar[k][at], 2.0 * (high - low)
                apart = (got < low - width) | (got > high + width)
                alone.append(apart & (abs(shaken[k][at] - got) > far[k]))
            if not any(bool(a.any()) for a in alone):
                return shaken
        for (k, at), (low, high), a in zip(pieces, bounds, alone, strict=True):
            mended = self.xbar[k][at] + (high - low)
            shaken[k][at] = self.xp.where(a, mended, shaken[k][at])
        return shaken

    def _nudged(self, side: str, k: int, leaf: Leaf, a: Any) -> Any:
        room = self.room(side, k, leaf, leaf.precision)
        signs, step = self._bytes(leaf, _SIGNS), 2.0 * unit(leaf.precision)
        for at in slabs(leaf.view_shape):
            room[at] = a[at] * (1.0 + self.cast(signs[at], leaf.precision) * step)
        return room

    def _usual(self, k: int, shaken: Any) -> tuple[float, float]:
        """Turn x̄' into |x̄' − x̄|; its r.m.s., as it is and relative to the entries."""
        leaf, xbar = self.domain.leaves[k], self.xbar[k]
        total, relative, count = 0.0, 0.0, 0
        # An entry that moves by far more took another branch; it speaks for itself.
        most = unit(leaf.precision) ** 0.5
        for at in slabs(leaf.view_shape):
            size = self.cast(abs(xbar[at]), self.work)
            gap = abs(self.cast(shaken[at], self.work) - self.cast(xbar[at], self.work))
            shaken[at] = gap
            calm = gap <= most * self.tops[k]
            gap = gap * calm
            count += int(calm.sum())
            total += float((gap * gap).sum())
            gap = (gap / size.clip(min=most * self.tops[k] + TINY)).clip(max=most)
            relative += float((gap * gap).sum())
        if 2 * count < leaf.size:
            raise Odd
        count = max(1, count)
        return (total / count) ** 0.5, (relative / count) ** 0.5

    def _widened(self, native: Probes) -> Probes | None:
        """The answers of the same rule in float32, which the native ones are near to.

        In half precision a rule is its own reference: what is proved of it in float32
        holds of it to its rounding. None where it is another function there.
        """
        wide = self.rule.widened("float32")
        exact = None if wide is None else wide.exact()
        if wide is None or exact is None or wide.record() is None:
            return None
        value = exact.value(self._moved_by(exact, {}))
        if value is None or not self._alike(value):
            return None
        ybars = [[self.cast(y, "float32") for y in ys] for ys in native.ybars]
        xbars = [wide.pull(ys) for ys in ybars]
        wide.forget()
        if xbars[0] is None or xbars[1] is None:
            return None
        self._finite(xbars[0])
        self._finite(xbars[1])
        tops = [_top(g) for g in xbars[0]]
        self._differenced(exact, value)
        for k, leaf in enumerate(self.domain):
            limit = self._rounded(native, k, xbars[0][k], tops[k])
            self.narrow.append(Limit(f"in {leaf.precision}", limit))
        self.narrow = [max(self.narrow, key=lambda a: a.value)]
        least = 4.0 * unit("float32")
        return Probes(
            wide, (ybars[0], ybars[1]), (xbars[0], xbars[1]),
            [abs(g) * least for g in xbars[0]], [top * least for top in tops],
            [least] * len(tops), tops, "float32",
        )  # fmt: skip

    def _rounded(self, native: Probes, k: int, exact: Any, top: float) -> float:
        """The least relative error that the rounding of native answers leaves room for."""
        least = np.inf
        for at in slabs(self.domain.leaves[k].view_shape):
            size = abs(self.cast(exact[at], self.work))
            room = native.own(k, at, size, alone=False)
            gap = self.cast(native.xbars[0][k][at], self.work) - exact[at]
            if not bool((abs(gap) <= room).all()):
                raise Odd
            seen = self.xp.where(size >= 1e-3 * top, (room + abs(gap)) / size, np.inf)
            least = min(least, float(seen.min()))
        return least

    # The forward.

    def _choose(self) -> None:
        """What is differenced: the forward in float64 where it is the same function."""
        self._differenced(self.rule, self.start)
        exact = self.rule.exact()
        value = None
        if exact is not None:
            value = exact.value(self._moved_by(exact, {}))
        if exact is not None and value is not None and self._alike(value):
            self._differenced(exact, value)

    def _differenced(self, source: Bulk, base: list[Any]) -> None:
        self.source, self.base, self.method = source, base, "central difference"
        if source is not self.rule:
            self.method += " in float64"
        unit_ = max(source.domain.unit, source.codomain.unit)
        exact = source is not self.rule and self.work != "float64"
        self.step = pooled.Step(unit_, near=exact)
        self.loose = max(LOOSE[leaf.precision] for leaf in self.source.domain)
        self.sizes = [_top(b) for b in self.base]

    def _alike(self, exact: list[Any]) -> bool:
        """Whether the native values are these, rounded."""
        coarse = max(self.domain.unit, self.codomain.unit)
        for leaf, a, b in zip(self.codomain, self.start, exact, strict=True):
            some = _sample(b)
            usual = float((some * some).mean()) ** 0.5
            room, least = nearness(coarse, _top(b), usual)
            for at in slabs(leaf.view_shape):
                wide = self.cast(b[at], self.work)
                gap = abs(self.cast(a[at], self.work) - wide)
                if not bool((gap <= room * abs(wide).clip(min=least)).all()):
                    return False
        return True

    def _groups(self) -> list[list[int]]:
        leaves = self.domain.leaves
        order = sorted(range(len(leaves)), key=lambda k: -leaves[k].size)
        groups = [[k] for k in order[:ALONE]]
        return [*groups, order[ALONE:]] if order[ALONE:] else groups

    def _along(self, group: list[int], probes: Probes) -> None:
        """One direction over the leaves of ``group``, by cells where it is one leaf."""
        us = {k: self.tangent(k) for k in group}
        first, lane = group[0], Lanes(self.domain.leaves[group[0]], self.codomain)
        if len(group) == 1:
            self.evaluations += 1
            leaf = self.domain.leaves[first]
            room = self.room("in", first, leaf, leaf.precision)
            lane = lanes(self.rule, first, us[first], self.start, room, self.rng)
        for step in (self.step, replace(self.step, near=False)):
            worth = Worth()
            try:
                self._summed(step, us, lane, probes, worth)
            except Odd:
                if not step.near:
                    raise
                continue
            if not step.near or min(worth.uniform) <= FINE:
                break
        worth.uniform = [min(worth.uniform)]
        self.worth.add(worth)

    def _summed(
        self,
        step: pooled.Step,
        us: dict[int, Any],
        lane: Lanes,
        probes: Probes,
        worth: Worth,
    ) -> None:
        """What values at these steps say of the answers."""
        moved = [self.moved(us, t) for t in step.steps]
        self.heard(us, moved)
        noisy, usual = self.typical(step, moved)
        along = Along(
            self.source, step, self.base, moved, us, self.sizes, noisy, self.loose
        )
        single = lane.width == 1 and len(us) == 1
        if single and all(a.shape == lane.leaf.shape for a in self.codomain):
            summing.each(probes, along, next(iter(us)), usual, worth)
        else:
            summing.by_cells(probes, along, lane, worth)

    def tangent(self, k: int) -> Any:
        """± a quarter of the size of each entry of a leaf, a power of two."""
        leaf, x = self.domain.leaves[k], self.rule.point[k]
        size = abs(self.cast(_sample(x), "float64"))
        live = size[size > 0]
        typical = float(self.xp.median(live)) if len(live) else 1.0
        u = self._numbers(leaf, _SIGNS, 0.25)
        name, mask = _POWERS[leaf.precision]
        for at in slabs(leaf.view_shape):
            size = abs(x[at]).clip(min=typical)
            power = size.view(getattr(self.xp, name)) & mask
            u[at] *= power.view(getattr(self.xp, leaf.precision))
        return u

    def moved(self, us: dict[int, Any], t: float) -> list[Any]:
        """What is differenced, at the point moved by t times the tangents ``us``."""
        value = self._value(self.source, self._moved_by(self.source, us, t))
        self._finite(value)
        return value

    def _moved_by(self, source: Bulk, us: dict[int, Any], t: float = 0.0) -> list[Any]:
        """The point, moved by t times the tangents ``us``, where it may be written on."""
        xs = []
        for k, leaf in enumerate(source.domain):
            x = self.rule.point[k]
            if us and k not in us:
                xs.append(self._still(k, leaf))
                continue
            room = self.room("in", k, leaf, leaf.precision)
            for at in slabs(leaf.view_shape):
                if k in us:
                    step = self.cast(us[k][at], leaf.precision) * t
                    self.xp.add(x[at], step, out=room[at])
                else:
                    room[at] = x[at]
            xs.append(room)
        return xs

    def _still(self, k: int, leaf: Leaf) -> Any:
        """A leaf that is not moved, in the precision of what is differenced."""
        x = self.rule.point[k]
        if leaf.precision == self.domain.leaves[k].precision:
            return x
        key = ("still", k, leaf.precision)
        if key not in self.rooms:
            self.rooms[key] = self.cast(x, leaf.precision)
        return self.rooms[key]

    def heard(self, us: dict[int, Any], moved: list[list[Any]]) -> None:
        """Where nothing moved, the function must be still on one side at least.

        Else it may be a staircase, and its steps are to be seen the long way.
        """
        pieces = [(k, at) for k, out in enumerate(self.codomain)
                  for at in slabs(out.view_shape)]  # fmt: skip
        far: list[list[Any]] = []
        for k, at in pieces:
            start = self.base[k][at]
            still = moved[0][k][at] == start
            if not bool(still.any()):
                continue
            still &= moved[1][k][at] == start
            if bool(still.any()):
                far = far or [self.moved(us, t) for t in (pooled.REACH, -pooled.REACH)]
                for value in far:
                    still &= value[k][at] != start
                if bool(still.any()):
                    raise Odd

    def typical(self, step: pooled.Step, moved: list[list[Any]]) -> tuple[float, float]:
        """How much noisier the values are than their rounding, and a usual slope."""
        noisy, usual = 1.0, 0.0
        for k, s in enumerate(self.base):
            start, *some = (
                self.cast(_sample(a), "float64") for a in (s, *(m[k] for m in moved))
            )
            v = step.values(start, *some)
            floor = step.floor(v.first, start, self.sizes[k])
            noisy = max(noisy, step.excess(v, floor, self.xp))
            live = abs(v.first[v.first != 0])
            if len(live):
                usual = max(usual, float(self.xp.median(live)) * 0.5 / step.h)
        return noisy, usual

    def _limits(self) -> tuple[Limit, ...]:
        w = self.worth
        if w.left_out > ODD * max(1, w.entries):
            raise Odd
        # What is uniform may be so in one input alone: the worst of them counts.
        found = [("uniform", max(w.uniform, default=np.inf))]
        found += [(name, max(a)) for name, a in (("one row", w.row), ("one entry", w.entry)) if a]  # fmt: skip
        if not (found[0][1] <= SHARP and all(np.isfinite(a) for _, a in found)):
            raise Odd
        return tuple(Limit(name, value) for name, value in found)

    # What they need.

    def _value(self, of: Bulk, xs: list[Any]) -> list[Any]:
        self.evaluations += 1
        value = of.value(xs)
        if value is None:
            raise Odd
        return value

    def _pull(self, ybars: list[Any]) -> list[Any]:
        self.vjps += 1
        grads = self.rule.pull(ybars)
        if grads is None:
            raise Odd
        return grads

    def _finite(self, arrays: Sequence[Any]) -> None:
        for a in arrays:  # a sum is finite only where all are
            if not bool(self.xp.isfinite(a.sum())) and not bool(
                self.xp.isfinite(a).all()
            ):
                raise Odd

    def _bytes(self, leaf: Leaf, table: bytes) -> Any:
        """Drawn small integers, one byte each."""
        drawn = np.frombuffer(self.rng.bytes(leaf.size).translate(table), dtype=np.int8)
        return self.rule.array(replace(leaf, precision="int8"), drawn)

    def _numbers(self, leaf: Leaf, table: bytes, scale: float) -> Any:
        out = self.cast(self._bytes(leaf, table), leaf.precision)
        out *= scale
        return out

    def drawn(self, space: Space) -> list[Any]:
        """A cotangent, or what is like one, for each leaf."""
        return [self._numbers(leaf, _COTANGENTS, 1.0 / _GRID) for leaf in space]
