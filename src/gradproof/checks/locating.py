"""Where is it wrong? Boxes, strides, bands and several runs, by masked directions.

All cells of a leaf are searched at once, each in an interval of its own, since one
direction answers for every cell. What is found is believed only if the rest of the leaf
is clean.
"""

from __future__ import annotations

import time

import numpy as np

from gradproof.checks.cells import cells
from gradproof.checks.gradient import off
from gradproof.checks.lanes import Lanes
from gradproof.checks.probing import directions, slope
from gradproof.oracles import Differences
from gradproof.rule import Rule
from gradproof.space import Mask, Vector
from gradproof.verdict import Probe

STRIDES = (2, 3, 4, 8)
# Entries that must be wrong, each alone, for a place to be called wrong throughout: so
# many in all, and so many in each cell.
SINGLES, SINGLES_EACH = 12, 2
RUNS = 6  # of wrong indices along an axis, at most


class OutOfTime(Exception):
    """Finding the place takes longer than it may."""


def locate(
    rule: Rule,
    oracle: Differences,
    lanes: Lanes,
    probe: Probe,
    u: Vector,
    rng: np.random.Generator,
    end: float,
) -> tuple[Mask, bool] | None:
    """The coordinates of a leaf that are wrong, and whether all of these are.

    Args:
        rule: what is wrong.
        oracle: the differences of its primal.
        lanes: how the leaf falls into cells.
        probe: the cotangent and x̄ that disagree.
        u: a dense tangent.
        rng: draws the entries that are looked at alone.
        end: when to give up (on the clock).

    Returns:
        A mask over the leaf's coordinates, outside which nothing is wrong, and whether
        entries inside were found wrong throughout. None where the leaf is not wrong, or
        time ran out.
    """
    search = _Search(rule, oracle, lanes, probe, u, rng, end)
    try:
        return search.found()
    except OutOfTime:
        return None


class _Search:
    """One leaf. A mask has shape (count, *inner): cells, and coordinates in a cell."""

    def __init__(
        self,
        rule: Rule,
        oracle: Differences,
        lanes: Lanes,
        probe: Probe,
        u: Vector,
        rng: np.random.Generator,
        end: float,
    ) -> None:
        self.rule, self.oracle, self.lanes, self.probe = rule, oracle, lanes, probe
        self.u, self.rng, self.end = u, rng, end
        self.shape = (lanes.count, *lanes.inner)
        self.thorough = False

    def found(self) -> tuple[Mask, bool] | None:
        every = np.ones(self.shape, bool)
        bad = self.off(every)
        if not bad.any() and self.lanes.count == 1:
            self.thorough = True
            bad = self.off(every)
        if not bad.any():
            return None
        box = self._box(every & self._cells(bad))
        mask, solid = box, self._solid(box)
        for narrow in (self._strided, self._banded, self._runs):
            if solid:
                break
            tried = narrow(mask)
            if tried is not None:
                mask, solid = tried, self._solid(tried)
        if self.off(~mask).any():
            return self._flat(every & self._cells(bad)), False
        return self._flat(mask), solid

    def off(self, mask: np.ndarray) -> Mask:
        """Cells that disagree on the coordinates in ``mask``; shape (count,)."""
        if time.perf_counter() > self.end:
            raise OutOfTime
        if not mask.any():
            return np.zeros(self.shape[0], bool)
        part = self.lanes.leaf.slice
        u = np.zeros_like(self.u)
        u[part] = np.where(self._flat(mask), self.u[part], 0.0)
        along = slope(self.oracle, u)
        if self.thorough:
            d = directions(self.rule, self.oracle, along, [self.probe], "thorough")[0]
            return np.array([off(d)])
        bad = cells(self.rule, self.lanes, along, self.probe).off
        return np.asarray(bad & mask.reshape(len(mask), -1).any(axis=1))

    def _flat(self, mask: np.ndarray) -> Mask:
        return self.lanes.flat(mask.reshape(len(mask), -1))

    def _cells(self, bad: Mask) -> np.ndarray:
        return bad.reshape(-1, *[1] * (len(self.shape) - 1))

    def _axis(self, axis: int) -> np.ndarray:
        """The index along an inner axis, shaped like a mask."""
        shape = [1] * len(self.shape)
        shape[axis] = self.shape[axis]
        return np.arange(self.shape[axis]).reshape(shape)

    def _box(self, within: np.ndarray) -> np.ndarray:
        """Of each cell, the smallest box that holds what is wrong in ``within``."""
        for axis in range(1, len(self.shape)):
            at = self._axis(axis)
            first = self._first(within, axis)
            last = self._first(within, axis, from_end=True)
            within = within & (at >= self._cells(first)) & (at <= self._cells(last))
        return within

    def _first(
        self, within: np.ndarray, axis: int, *, from_end: bool = False
    ) -> np.ndarray:
        """Of each cell, the first (last) index along an axis that is wrong."""
        at, extent = self._axis(axis), self.shape[axis]
        low, high = np.zeros(len(within), int), np.full(len(within), extent)
        while (high - low > 1).any():
            middle = (low + high) // 2
            a, b = (middle, high) if from_end else (low, middle)
            part = within & (at >= self._cells(a)) & (at < self._cells(b))
            bad = self.off(part)
            if from_end:
                low, high = np.where(bad, middle, low), np.where(bad, high, middle)
            else:
                low, high = np.where(bad, low, middle), np.where(bad, middle, high)
        return low

    def _solid(self, mask: np.ndarray) -> bool:
        """Whether entries of each cell's mask, one at a time, are wrong."""
        flat = mask.reshape(len(mask), -1)
        count = flat.sum(axis=1)
        live = count > 0
        if (count <= 1).all():
            return True
        for _ in range(max(SINGLES_EACH, SINGLES // int(live.sum()))):
            rank = self.rng.integers(0, np.maximum(count, 1))
            order = np.cumsum(flat, axis=1) - 1
            one = flat & (order == rank[:, None])
            if (live & ~self.off(one.reshape(self.shape))).any():
                return False
        return True

    def _clean(self, box: np.ndarray, mask: np.ndarray) -> bool:
        """Whether what ``mask`` leaves of ``box`` has nothing wrong."""
        return not self.off(box & ~mask).any()

    def _strided(self, box: np.ndarray) -> np.ndarray | None:
        """Every k-th index of each cell's box."""
        for axis in range(1, len(self.shape)):
            at = self._axis(axis)
            first = np.argmax(box.any(axis=self._others(axis)), axis=1)
            for k in STRIDES:
                mask: np.ndarray = box & ((at - self._cells(first)) % k == 0)
                if self.shape[axis] > k and self._clean(box, mask):
                    return mask
        return None

    def _others(self, axis: int) -> tuple[int, ...]:
        return tuple(a for a in range(1, len(self.shape)) if a != axis)

    def _banded(self, box: np.ndarray) -> np.ndarray | None:
        """A band along the diagonal of the last two axes, or a triangle."""
        if len(self.shape) < 3 or self.shape[-1] != self.shape[-2]:
            return None
        apart = self._axis(len(self.shape) - 1) - self._axis(len(self.shape) - 2)
        for triangle in (apart > 0, apart < 0, apart != 0):
            if self._clean(box, box & triangle):
                return np.asarray(box & triangle)
        low, high = -1, self.shape[-1] - 1  # the complement is clean at high
        while high - low > 1:
            middle = (low + high) // 2
            if self._clean(box, box & (np.abs(apart) <= middle)):
                high = middle
            else:
                low = middle
        if high == self.shape[-1] - 1:
            return None
        return np.asarray(box & (np.abs(apart) <= high))

    def _runs(self, box: np.ndarray) -> np.ndarray | None:
        """Several runs of wrong indices along each axis."""
        mask = box
        for axis in range(1, len(self.shape)):
            found = self._along(mask, axis)
            if found is not None:
                mask = found
        return mask

    def _along(self, box: np.ndarray, axis: int) -> np.ndarray | None:
        at = self._axis(axis)
        left, out = box, np.zeros_like(box)
        for _ in range(RUNS):
            bad = self.off(left)
            if not bad.any():
                return out
            first = self._first(left, axis)
            low, high = first, np.full(len(box), self.shape[axis])
            while (high - low > 1).any():  # the end of a run that is wrong throughout
                middle = (low + high) // 2
                slab = self.off(left & (at == self._cells(middle)))
                low, high = np.where(slab, middle, low), np.where(slab, high, middle)
            run = (at >= self._cells(first)) & (at <= self._cells(low))
            out |= left & run & self._cells(bad)
            left = left & (at > self._cells(low)) & self._cells(bad)
        return None
