"""The vjp of a large rule, alone: linear in its cotangent, and how far it is rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradproof.checks.arrays import Numbers
from gradproof.checks.linearity import LARGE
from gradproof.checks.rounding import FURTHER, SAME
from gradproof.checks.slabs import Index, slabs
from gradproof.checks.summing import Odd
from gradproof.space import Leaf, unit

TINY = 2.0**-120


@dataclass(frozen=True)
class Moved:
    """The r.m.s. moves of a leaf's entries, as they are and relative to them.

    Of the ``calm`` ones: an entry that moves by far more took another branch, and speaks
    for itself.
    """

    usual: float
    share: float
    calm: int
    size: int


class Answers(Numbers):
    """x̄ for two cotangents, from one graph.

    ``xbar`` belongs to ``ybar`` and ``second`` to ``other``; ``tops`` are the largest
    |x̄|. ``spread`` is how far x̄ moves when everything is shaken by about one ulp, and
    ``usual`` what is usual of that.
    """

    ybar: list[Any]
    other: list[Any]
    xbar: list[Any]
    second: list[Any]
    tops: list[float]
    spread: list[Any]
    usual: list[Moved]

    def linear(self) -> None:
        """Ask for the vjp of 0, of −kȳ, of ȳ₂ and of ȳ + ȳ₂, all from one graph."""
        self.other = self.drawn(self.codomain)
        factor = -min(LARGE[leaf.precision] for leaf in self.codomain)
        for g in self._pull(self._cotangents(lambda y, _: y * 0.0)):
            if self.rule.top(g) != 0.0:
                raise Odd
        scaled = self._pull(self._cotangents(lambda y, _: y * factor))
        if not self._multiple(scaled, factor):
            self._near(scaled, [(factor, self.xbar)])
            if not self._multiple(self._pull(self.ybar), 1.0):
                raise Odd
        del scaled
        self.second = self._pull(self.other)
        self.finite(self.second)
        both = self._pull(self._cotangents(lambda y, z: y + z))
        self._near(both, [(1.0, self.xbar), (1.0, self.second)])

    def _pull(self, ybars: list[Any]) -> list[Any]:
        self.vjps += 1
        grads = self.rule.pull(ybars)
        if grads is None:
            raise Odd
        return grads

    def _cotangents(self, of: Callable[[Any, Any], Any]) -> list[Any]:
        """What ``of`` makes of both cotangents, written where the last ones were."""
        out = []
        for k, (leaf, y) in enumerate(zip(self.codomain, self.ybar, strict=True)):
            room = self.room("out", k, leaf, leaf.precision)
            for at in slabs(leaf.view_shape):
                room[at] = of(y[at], self.other[k][at])
            out.append(room)
        return out

    def _multiple(self, got: list[Any], factor: float) -> bool:
        """Whether ``got`` is ``factor`` times x̄ to the bit."""
        return all(
            self.rule.same(g[at], x[at] * factor)
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
                if not self.rule.top(left) <= room:
                    raise Odd

    # Its rounding.

    def rounded(self) -> None:
        """What shaking every number by about one ulp does to x̄."""
        self.spread, self.usual = self._shaken(), []
        self.rooms.clear()  # which the answer may be a view of
        far: list[tuple[int, Index]] = []
        for k in range(len(self.domain)):
            self.usual.append(self._typical(k, self._turned(k), far))
        if far:
            self._unbranched(far)
            for k in {k for k, _ in far}:
                self.usual[k] = self._typical(k, self._read(k), [])
        if any(2 * a.calm < a.size for a in self.usual):
            raise Odd

    def _shaken(self) -> list[Any]:
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
        self.finite(got)
        return got

    def _nudged(self, side: str, k: int, leaf: Leaf, a: Any) -> Any:
        room = self.room(side, k, leaf, leaf.precision)
        signs, step = self.signs(leaf), 2.0 * unit(leaf.precision)
        for at in slabs(leaf.view_shape):
            room[at] = a[at] * (1.0 + self.cast(signs[at], leaf.precision) * step)
        return room

    def _most(self, k: int) -> float:
        """An entry that moves by more took another branch."""
        return float(unit(self.domain.leaves[k].precision) ** 0.5 * self.tops[k])

    def _turned(self, k: int) -> Iterator[tuple[Index, Any]]:
        """|x̄' − x̄| piece by piece, which is left where x̄' was."""
        shaken, xbar = self.spread[k], self.xbar[k]
        for at in slabs(self.domain.leaves[k].view_shape):
            gap = self.cast(shaken[at], self.work) - self.cast(xbar[at], self.work)
            gap = abs(gap)
            shaken[at] = gap
            yield at, gap

    def _read(self, k: int) -> Iterator[tuple[Index, Any]]:
        """The same once more."""
        for at in slabs(self.domain.leaves[k].view_shape):
            yield at, self.cast(self.spread[k][at], self.work)

    def _unbranched(self, pieces: list[tuple[int, Index]]) -> None:
        """Mend the moves of entries that have a branch of their own at x.

        See ``rounding.moves``: where many shaken answers agree with each other and not
        with x̄, what they differ by among themselves is the rounding.
        """
        lows: list[Any] = []
        highs: list[Any] = []
        alone: list[Any] = []
        for _ in range(FURTHER):
            more = self._shaken()
            now = [more[k][at] + 0.0 for k, at in pieces]  # it may be a view of a room
            lows = [self.xp.fmin(a, b) for a, b in zip(lows or now, now, strict=True)]
            highs = [self.xp.fmax(a, b) for a, b in zip(highs or now, now, strict=True)]
            alone = [
                self._alone(k, at, low, high)
                for (k, at), low, high in zip(pieces, lows, highs, strict=True)
            ]
            if not any(bool(a.any()) for a in alone):
                break
        for (k, at), low, high, a in zip(pieces, lows, highs, alone, strict=True):
            self.spread[k][at] = self.xp.where(a, high - low, self.spread[k][at])
        self.rooms.clear()

    def _alone(self, k: int, at: Index, low: Any, high: Any) -> Any:
        """Where x̄ is far from all that the shaken answers are near to."""
        got, room = self.xbar[k][at], 2.0 * (high - low)
        apart = (got < low - room) | (got > high + room)
        return apart & (self.spread[k][at] > self._most(k))

    def _typical(
        self, k: int, pieces: Iterator[tuple[Index, Any]], far: list[tuple[int, Index]]
    ) -> Moved:
        """What is usual of the moves; the pieces where one is far are added to ``far``."""
        leaf, xbar, most = self.domain.leaves[k], self.xbar[k], self._most(k)
        share, calm, total, relative = unit(leaf.precision) ** 0.5, 0, 0.0, 0.0
        for at, gap in pieces:
            size = abs(self.cast(xbar[at], self.work)).clip(min=most + TINY)
            if self.rule.top(gap) > most:
                far.append((k, at))
                few = gap <= most
                gap, here = gap * few, int(few.sum())
            else:
                here = math.prod(gap.shape)
            calm += here
            total += float((gap * gap).sum())
            gap = (gap / size).clip(max=share)
            relative += float((gap * gap).sum())
        count = max(1, calm)
        return Moved((total / count) ** 0.5, (relative / count) ** 0.5, calm, leaf.size)
