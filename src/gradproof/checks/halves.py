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
from gradproof.rule import Bulk
from gradproof.space import Leaf

FEW = 64  # an axis of no more entries is halved exactly

Half = np.ndarray[Any, np.dtype[np.bool_]]


def lanes(
    bulk: Bulk,
    xs: Sequence[Any],
    which: int,
    step: Any,
    start: Sequence[Any],
    rng: np.random.Generator,
) -> Lanes:
    """The independent axes of leaf ``which``.

    Args:
        bulk: the function.
        xs: its inputs.
        which: the leaf that is moved.
        step: by how much, an array like it.
        start: the outputs at ``xs``.
        rng: chooses the halves.
    """
    leaf = list(bulk.domain)[which]
    none = Lanes(leaf, bulk.codomain)
    halves = [_half(n, rng) for n in leaf.shape]
    moved = list(xs)
    moved[which] = xs[which] + step * _product(bulk, leaf, halves)
    value = bulk.value(moved)
    if value is None:
        return none
    changed = [_changed(leaf_out, a, b)
               for leaf_out, a, b in zip(bulk.codomain, value, start, strict=True)]  # fmt: skip
    if not any(bool(c.any()) for c in changed):
        return none
    along = [[_over(bulk, c, axis) for axis in range(c.ndim)] for c in changed]
    axes: list[int] = []
    partners: list[list[int]] = [[] for _ in changed]
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


def _product(bulk: Bulk, leaf: Leaf, halves: list[Half]) -> Any:
    """1 where every index lies in its half, to be multiplied with an array of the leaf."""
    out: Any = 1.0
    for axis, half in enumerate(halves):
        shape = [1] * len(leaf.view_shape)
        shape[axis] = len(half)
        some = Leaf(leaf.path, tuple(shape), leaf.precision)
        out = out * bulk.array(some, half.astype(np.float32))
    return out


def _changed(leaf: Leaf, a: Any, b: Any) -> Any:
    """Elements that are not the same number in both."""
    differs = (a != b) & ~((a != a) & (b != b))
    return differs.any(-1) if leaf.is_complex else differs


def _over(bulk: Bulk, changed: Any, axis: int) -> Half:
    moved = bulk.xp.moveaxis(changed, axis, 0)
    found: Half = bulk.host(moved.reshape(moved.shape[0], -1).any(-1))
    return found


def _partner(
    back: int, axis: int, half: Half, touched: list[Half], taken: list[int]
) -> int | None:
    """The axis of an output along which the half alone changed; the likeliest first."""
    order = [axis, len(touched) + back, *range(len(touched))]
    for o in order:
        fits = 0 <= o < len(touched) and o not in taken
        if not (fits and len(touched[o]) == len(half)):
            continue
        if not bool((touched[o] & ~half).any()):
            return o
    return None
