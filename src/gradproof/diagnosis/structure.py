"""Which outputs hang on which inputs, and how: components, axes, permutations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY, rank
from gradproof.diagnosis.card import Bools
from gradproof.diagnosis.look import Coordinates, Panel
from gradproof.space import Leaf, Mask, Matrix


def support(values: Matrix, error: Matrix) -> Bools:
    """Entries that are not 0, as far as the error tells."""
    out: Bools = ~(np.abs(values) <= error)
    return out


def got_support(p: Panel) -> Bools:
    """Where the rule gave something."""
    return support(p.got, AMPLIFY * p.own)


def want_support(p: Panel) -> Bools:
    """Where there is something to give."""
    return support(p.want, p.bound) & p.ok


def indices(leaf: Leaf, coordinates: Coordinates) -> tuple[Coordinates, ...]:
    """The index along each axis of coordinates of a leaf."""
    flat = coordinates - leaf.start
    if leaf.is_complex:
        flat = flat // 2
    return tuple(np.asarray(a) for a in np.unravel_index(flat, leaf.shape or (1,)))


def relations(
    p: Panel, live: Bools, into: Leaf, out: Leaf
) -> frozenset[tuple[int, int]]:
    """Pairs (axis of input, axis of output) whose indices agree wherever ``live``."""
    assert p.rows is not None
    if not live.any():
        return frozenset()
    cols, rows = indices(into, p.cols), indices(out, p.rows)
    i, j = np.nonzero(live)
    return frozenset(
        (a, b)
        for a, n in enumerate(into.shape)
        for b, m in enumerate(out.shape)
        if n == m and n > 1 and np.array_equal(cols[a][j], rows[b][i])
    )


def components(live: Bools) -> Iterator[tuple[Coordinates, Coordinates]]:
    """Rows and columns that hang together, group by group."""
    rows_left = live.any(axis=1)
    while rows_left.any():
        rows: Mask = np.zeros(len(live), bool)
        rows[int(np.argmax(rows_left))] = True
        while True:
            cols = live[rows].any(axis=0)
            more = live[:, cols].any(axis=1)
            if np.array_equal(more, rows):
                break
            rows = np.asarray(more)
        rows_left &= ~rows
        yield np.flatnonzero(rows), np.flatnonzero(cols)


@dataclass(frozen=True)
class Complexity:
    """How much goes into a matrix: rank off the diagonal, rank, entries."""

    off: int
    rank: int
    entries: int

    def key(self) -> tuple[int, int, int]:
        """For comparison."""
        return self.off, self.rank, self.entries


def complexity(values: Matrix, error: Matrix) -> Complexity:
    """Rank of what couples one half with the other, then rank, then entries.

    The first does not see the diagonal, so that "a diagonal plus a term of rank one"
    counts as one whatever the diagonal is.
    """
    m, n = values.shape
    off = 0
    if m == n and m > 1:
        h = m // 2
        off = max(
            rank(values[:h, h:], error[:h, h:]), rank(values[h:, :h], error[h:, :h])
        )
    return Complexity(off, rank(values, error), int(support(values, error).sum()))


def matching(
    got: Matrix, own: Matrix, want: Matrix, bound: Matrix
) -> Coordinates | None:
    """For each column of ``got`` a different column of ``want`` that equals it.

    -1 for columns that are 0 though what is due there is not. None when some column is
    none of these.
    """
    n = got.shape[1]
    if want.shape != got.shape or n > 600 or not np.isfinite(got).all():
        return None
    room = bound + AMPLIFY * own.max(initial=0.0)
    out = np.full(n, -1)
    free = np.ones(n, bool)
    for j in range(n):
        gap = np.abs(want - got[:, j : j + 1])
        fits = (gap <= room + AMPLIFY * own[:, j : j + 1]).all(axis=0) & free
        if not fits.any():
            if np.any(np.abs(got[:, j]) > AMPLIFY * own[:, j]):
                return None
            continue
        k = j if fits[j] else int(np.argmax(np.where(fits, -gap.max(axis=0), -np.inf)))
        out[j], free[k] = k, False
    return out


def scattered(p: Panel, leaf: Leaf) -> int | None:
    """The axis of a leaf along which rows put what they owe to the wrong index.

    Row by row, every slice of ``got`` across that axis that is not 0 equals another
    slice of ``want`` in the same row; some have moved, some may be lost.
    """
    if len(p.cols) != leaf.size or leaf.is_complex or not p.ok.all():
        return None
    if not np.isfinite(p.got).all():
        return None
    for axis, n in enumerate(leaf.shape):
        if n < 2:
            continue
        got, want, room = (_across(a, leaf, axis) for a in (p.got, p.want, p.slack))
        own = _across(AMPLIFY * p.own, leaf, axis)
        moved = 0
        for g, w, r, o in zip(got, want, room, own, strict=True):
            step = _moves(g, w, r + o.max(), o)
            if step is None:
                break
            moved += step
        else:
            if moved >= 2:
                return axis
    return None


def _across(values: Matrix, leaf: Leaf, axis: int) -> np.ndarray:
    """(rows, index along the axis, the rest)."""
    shaped = values.reshape(len(values), *leaf.shape)
    return np.moveaxis(shaped, axis + 1, 1).reshape(len(values), leaf.shape[axis], -1)


def _moves(got: Matrix, want: Matrix, room: Matrix, own: Matrix) -> int | None:
    """How many slices of one row have moved; None when one is of no other."""
    free, moved = np.ones(len(want), bool), 0
    for k in np.flatnonzero((np.abs(got) > own).any(axis=1)):
        fits = (np.abs(want - got[k]) <= room).all(axis=1) & free
        fits &= (np.abs(want) > room).any(axis=1)
        if not fits.any():
            return None
        at = k if fits[k] else int(np.argmax(fits))
        free[at] = False
        moved += int(at != k)
    return moved
