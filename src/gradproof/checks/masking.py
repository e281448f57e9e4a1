"""Masked directions on arrays: what moves of a large leaf disagrees, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradproof.checks.bulk import Question
from gradproof.checks.lanes import Lanes
from gradproof.checks.summing import (
    RANDOM,
    SYSTEMATIC,
    Along,
    Probes,
    answered,
    expected,
)
from gradproof.space import Mask, Vector

# Values of such a roundoff are exact enough, at very small steps, for what is wrong to be
# looked for: two of them do where four measure.
EXACT = 2.0**-50

Numbers = tuple[Vector, Vector, Vector]


class Masked:
    """One leaf, moved along a dense tangent or along a masked part of it."""

    def __init__(self, q: Question, p: Probes, which: int, lanes: Lanes) -> None:
        """``p`` are the answers, ``lanes`` how leaf number ``which`` falls into cells."""
        self.q, self.p, self.which, self.lanes = q, p, which, lanes
        self.leaf = q.domain.leaves[which]
        self.noisy, self.step = 1.0, replace(q.step, near=False)
        self.tangent = q.tangent(which)
        coarse = max(q.source.domain.unit, q.source.codomain.unit)
        self.exact = coarse <= EXACT

    def everything(self) -> Mask:
        """The cells that disagree where all of the leaf is moved; shape (count,).

        Raises ``Odd`` where the function may be a staircase.
        """
        along = self._along(self.tangent)
        self.q.heard(along.us, [list(m) for m in along.moved])
        self.noisy = max(self.noisy, along.noisy)
        return self._off(along)

    def fresh(self, times: float) -> None:
        """Another tangent from here on, and steps that many times as large."""
        self.tangent = self.q.tangent(self.which)
        self.step = replace(self.step, near=False, times=times)

    def quicker(self, bad: Mask) -> None:
        """Two very small steps from here on, where they find the same cells."""
        if not self.exact:
            return
        careful, self.step = self.step, replace(self.step, near=True, times=1.0)
        if not (self._off(self._along(self.tangent)) == bad).all():
            self.step = careful

    def off(self, mask: np.ndarray) -> Mask:
        """Cells that disagree on the coordinates in ``mask``, of shape (count, …)."""
        bad = self._off(self._along(self._part(mask)))
        if self.exact or (bad | ~mask.reshape(len(mask), -1).any(axis=1)).all():
            return bad
        # Where rounding hides much, errors of both signs may do so too: a second look.
        self.tangent = self.q.tangent(self.which)
        return bad | self._off(self._along(self._part(mask)))

    def slopes(self, mask: np.ndarray) -> Numbers:
        """Of each cell <x̄, u>, <ȳ, J u>, and what may excuse that they differ."""
        return next(self._numbers(self._along(self._part(mask))))

    def _part(self, mask: np.ndarray) -> Any:
        """The tangent where the mask is, 0 elsewhere."""
        chosen = self.lanes.flat(mask.reshape(len(mask), -1)).astype(np.int8)
        return self.tangent * self.q.rule.array(
            replace(self.leaf, precision="int8"), chosen
        )

    def _along(self, u: Any) -> Along:
        q, us = self.q, {self.which: u}
        moved = [q.moved(us, t) for t in self.step.steps]
        noisy, _ = q.typical(self.step, moved)
        noisy = max(noisy, self.noisy)
        return Along(q.source, self.step, q.base, moved, us, q.sizes, noisy, q.loose)

    def _off(self, along: Along) -> Mask:
        out = np.zeros(self.lanes.count, bool)
        for got, value, room in self._numbers(along):
            with np.errstate(invalid="ignore"):
                out |= ~(np.abs(got - value) <= room)
        return out

    def _numbers(self, along: Along) -> Iterator[Numbers]:
        """The same for each cotangent."""
        sums, noise = expected(self.p, along, self.lanes)
        gots, own = answered(self.p, along, self.lanes)
        shared = SYSTEMATIC * self.q.domain.unit
        host = self.q.rule.host
        for v, got in zip(sums, gots, strict=True):
            value, bound = along.step.slope(v, noise**0.5)
            room = bound + RANDOM * own**0.5 + shared * abs(got)
            one, two, three = (host(a).reshape(-1) for a in (got, value, room))
            yield one, two, three
