"""Where is it wrong? Boxes, strides, bands and several runs, by masked directions.

All cells of a leaf are searched at once, each in an interval of its own, since one
direction answers for every cell. What is found is believed only if the rest of the leaf
is clean.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.checks.lanes import Lanes
from gradproof.space import Mask

STRIDES = (2, 3, 4, 8)
# Entries that must be wrong, each alone, for a place to be called wrong throughout: so
# many in all, and so many in each cell.
SINGLES, SINGLES_EACH = 12, 2
RUNS = 6  # of wrong indices along an axis, at most

# The cells, of shape (count,), that disagree on the coordinates in a mask of shape
# (count, *inner).
Ask = Callable[[np.ndarray], Mask]


def locate(
    lanes: Lanes, ask: Ask, rng: np.random.Generator, bad: Mask
) -> tuple[Mask, bool] | None:
    """The coordinates of a leaf that are wrong, and whether all of these are.

    Args:
        lanes: how the leaf falls into cells.
        ask: compares what a mask of coordinates moves.
        rng: draws the entries that are looked at alone.
        bad: the cells that disagree where everything is moved.

    Returns:
        A mask over the leaf's coordinates, outside which nothing is wrong, and whether
        entries inside were found wrong throughout. None where no cell is bad.
    """
    return _Search(lanes, ask, rng).found(bad) if bad.any() else None


def one_each(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of each cell's coordinates in ``mask`` one at random; the same shape."""
    flat = mask.reshape(len(mask), -1)
    rank = rng.integers(0, np.maximum(flat.sum(axis=1), 1))
    one: np.ndarray = flat & (np.cumsum(flat, axis=1) - 1 == rank[:, None])
    return one.reshape(mask.shape)


class _Search:
    """One leaf. A mask has shape (count, *inner): cells, and coordinates in a cell."""

    def __init__(self, lanes: Lanes, ask: Ask, rng: np.random.Generator) -> None:
        self.lanes, self.ask, self.rng = lanes, ask, rng
        self.shape = (lanes.count, *lanes.inner)

    def found(self, bad: Mask) -> tuple[Mask, bool]:
        mask = np.ones(self.shape, bool) & self._cells(bad)
        solid = self._solid(mask)
        for narrow in (self._box, self._strided, self._banded, self._runs):
            if solid:
                break
            tried = narrow(mask)
            if tried is not None:
                mask, solid = tried, self._solid(tried)
        if self.off(~mask).any():
            return self._flat(np.ones(self.shape, bool) & self._cells(bad)), False
        return self._flat(mask), solid

    def off(self, mask: np.ndarray) -> Mask:
        """Cells that disagree on the coordinates in ``mask``; shape (count,)."""
        if not mask.any():
            return np.zeros(self.shape[0], bool)
        bad: Mask = self.ask(mask) & mask.reshape(len(mask), -1).any(axis=1)
        return bad

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
            after = within & (at > self._cells(first))
            last = first
            if self.off(after).any():
                last = np.maximum(first, self._first(after, axis, from_end=True))
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
        count = mask.reshape(len(mask), -1).sum(axis=1)
        live = count > 0
        if (count <= 1).all():
            return True
        for _ in range(max(SINGLES_EACH, SINGLES // int(live.sum()))):
            if (live & ~self.off(one_each(mask, self.rng))).any():
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
