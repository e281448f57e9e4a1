"""Which axes of a large leaf are independent, from one forward.

Entries are moved whose index lies in a random half along every axis at once. An axis
along which the outputs change inside its half alone is independent, as far as can be
seen: cells are compared on the strength of it, and never excused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradproof.checks.lanes import Lanes
from gradproof.checks.slabs import slabs
from gradproof.rule import Bulk
from gradproof.space import Leaf

FEW = 64  # an axis of no more entries is halved exactly

Half = np.ndarray[Any, np.dtype[np.bool_]]


def lanes(
    bulk: Bulk,
    which: int,
    step: Any,
    start: Sequence[Any],
    room: Any,
    rng: np.random.Generator,
) -> Lanes:
    """The independent axes of leaf ``which``.

    Args:
        bulk: the function, asked next to its point.
        which: the leaf that is moved.
        step: half of how far, an array like it.
        start: the outputs at the point.
        room: an array like it, to write on.
        rng: chooses the halves.
    """
    leaf = bulk.domain.leaves[which]
    none = Lanes(leaf, bulk.codomain)
    halves = [_half(n, rng) for n in leaf.shape]
    parts = [_shaped(bulk, leaf, axis, half) for axis, half in enumerate(halves)]
    x = bulk.point[which]
    for at in slabs(leaf.view_shape):
        moved = step[at] * 2.0
        for axis, part in enumerate(parts):
            moved *= part[tuple(at[a] if a == axis else slice(None) for a in range(len(at)))]  # fmt: skip
        bulk.xp.add(x[at], moved, out=room[at])
    xs = list(bulk.point)
    xs[which] = room
    value = bulk.value(xs)
    if value is None:
        return none
    along = [
        _touched(bulk, out, a, b)
        for out, a, b in zip(bulk.codomain, value, start, strict=True)
    ]
    if not any(t.any() for touched in along for t in touched):
        return none
    axes: list[int] = []
    partners: list[list[int]] = [[] for _ in along]
    for axis, half in enumerate(halves):
        if len(half) < 2:
            continue
        found = [
            _partner(axis - len(leaf.shape), axis, half, touched, taken)
            for touched, taken in zip(along, partners, strict=True)
        ]
        if any(p is None for p in found):
            continue
        axes.append(axis)
        for taken, p in zip(partners, found, strict=True):
            taken.append(-1 if p is None else p)
    if not axes:
        return none
    return Lanes(leaf, bulk.codomain, tuple(axes), tuple(map(tuple, partners)))


def _half(n: int, rng: np.random.Generator) -> Half:
    if n < 2:
        return np.ones(n, dtype=bool)
    if n <= FEW:
        return rng.permutation(np.arange(n) < n // 2)
    return np.frombuffer(rng.bytes(n), dtype=np.uint8) < 128


def _shaped(bulk: Bulk, leaf: Leaf, axis: int, half: Half) -> Any:
    """1 in the half and 0 elsewhere, to be multiplied with an array of the leaf."""
    shape = [1] * len(leaf.shape)
    shape[axis] = len(half)
    some = Leaf(leaf.path, tuple(shape), leaf.precision)
    out = bulk.array(some, half.astype(np.int8))
    return out[..., None] if leaf.is_complex else out


def _touched(bulk: Bulk, leaf: Leaf, a: Any, b: Any) -> list[Half]:
    """Along each axis of an output, the indices at which some element changed."""
    found = [bulk.zeros((n,)) != 0 for n in leaf.shape]
    for at in slabs(leaf.view_shape):
        differs = a[at] != b[at]
        if leaf.is_complex:
            differs = differs.any(-1)
        if differs.ndim == 1:
            found[0][at] |= differs
            continue
        for axis, seen in enumerate(found):
            moved = bulk.xp.moveaxis(differs, axis, 0)
            seen[at[axis]] |= moved.reshape(moved.shape[0], -1).any(-1)
    return [bulk.host(seen) for seen in found]


def _partner(
    back: int, axis: int, half: Half, touched: list[Half], taken: list[int]
) -> int | None:
    """The axis of an output along which the half alone changed; the likeliest first."""
    order: list[int] = [axis, len(touched) + back, *range(len(touched))]
    for o in order:
        fits = 0 <= o < len(touched) and o not in taken
        if not (fits and len(touched[o]) == len(half)):
            continue
        if not bool((touched[o] & ~half).any()):
            return o
    return None
