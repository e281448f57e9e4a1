"""Which axes are independent: the cells of a leaf that move only cells of the outputs.

An elementwise operation has a cell for each element, a row-wise one for each row; one
direction then shows one column of every cell's Jacobian. Structure only chooses what is
looked at: dense directions verify it, and what it accuses is measured without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.oracles import Differences
from gradproof.space import Leaf, Mask, Space, Vector

Array = np.ndarray[Any, Any]

TRIES = 2  # random halves that each axis is moved in


@dataclass(frozen=True, eq=False)
class Lanes:
    """The axes of a leaf along which it is independent, and those of the outputs.

    ``partners`` has, for each output leaf, the axes that belong to ``axes`` in the same
    order, or None for an output that the leaf does not reach. No axes: one cell.
    """

    leaf: Leaf
    codomain: Space
    axes: tuple[int, ...] = ()
    partners: tuple[tuple[int, ...] | None, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the independent axes."""
        return tuple(self.leaf.shape[a] for a in self.axes)

    @property
    def inner(self) -> tuple[int, ...]:
        """Extents of the other axes (a last one of 2 where complex)."""
        shape = self.leaf.view_shape
        return tuple(n for a, n in enumerate(shape) if a not in self.axes)

    @property
    def count(self) -> int:
        """Number of cells."""
        return int(np.prod(self.extents, dtype=np.int64))

    @property
    def width(self) -> int:
        """Coordinates of the leaf in one cell."""
        return self.leaf.size // max(1, self.count)

    def rows(self, part: Array) -> Array:
        """The leaf's part of a flat vector as (count, width)."""
        return _rows(part.reshape(self.leaf.view_shape), self.axes, self.count)

    def flat(self, rows: Array) -> Array:
        """The inverse of ``rows``."""
        shaped = rows.reshape(*self.extents, *self.inner)
        return np.moveaxis(shaped, range(len(self.axes)), self.axes).ravel()

    def totals(self, v: Array) -> Vector:
        """Of each cell, the sum of ``v`` over the outputs that belong to it."""
        out = np.zeros(self.count)
        for rows in self._outputs(v):
            out += rows[:, 0] if rows.shape[1] == 1 else rows.sum(axis=1)
        return out

    def largest(self, v: Array) -> Array:
        """Of each cell, the maximum of ``v`` (≥ 0) over its outputs."""
        out = np.zeros(self.count, dtype=v.dtype)
        for rows in self._outputs(v):
            np.maximum(out, rows.max(axis=1, initial=0), out=out)
        return out

    def _outputs(self, v: Array) -> list[Array]:
        if not self.axes:
            return [v.reshape(1, -1)]
        return [
            _rows(v[out.slice].reshape(out.view_shape), axes, self.count)
            for out, axes in zip(self.codomain, self.partners, strict=True)
            if axes is not None
        ]


def _rows(view: Array, axes: tuple[int, ...], count: int) -> Array:
    return np.moveaxis(view, axes, range(len(axes))).reshape(count, -1)


def lanes(oracle: Differences, leaf: Leaf, rng: np.random.Generator) -> Lanes:
    """The independent axes of ``leaf``, seen by moving random halves of it by O(|x|).

    Small steps hide in rounding. Only outputs that stay the same to the bit count, and
    only axes of equal extent are paired. Elementwise comes first.
    """
    codomain = oracle.primal.codomain
    none = Lanes(leaf, codomain)
    if leaf.size < 2 or not np.isfinite(oracle.value).any():
        return none
    if leaf.shape and _elementwise(oracle, leaf, rng):
        axes = tuple(range(len(leaf.shape)))
        return Lanes(leaf, codomain, axes, (axes,) * len(codomain))
    chosen: list[int] = []
    partners: list[list[int]] = [[] for _ in codomain]
    reached: list[bool] | None = None
    for axis, extent in enumerate(leaf.shape):
        if extent < 2:
            continue
        found = _alone(oracle, leaf, axis, partners, rng)
        if found is None:
            continue
        if any(o is None for o in found):
            reached = reached or _reached(oracle, leaf, rng)
            if any(r and o is None for r, o in zip(reached, found, strict=True)):
                continue
        chosen.append(axis)
        for mine, o in zip(partners, found, strict=True):
            mine.append(-1 if o is None else o)
    if not chosen:
        return none
    return Lanes(
        leaf,
        codomain,
        tuple(chosen),
        tuple(None if -1 in mine else tuple(mine) for mine in partners),
    )


def _elementwise(oracle: Differences, leaf: Leaf, rng: np.random.Generator) -> bool:
    if any(out.shape != leaf.shape for out in oracle.primal.codomain):
        return False
    for _ in range(TRIES):
        half: Mask = rng.random(leaf.shape) < 0.5
        changed = _changed(oracle, leaf, half, rng)
        if changed is None or any((c & ~half).any() for c in changed):
            return False
    return True


def _alone(
    oracle: Differences,
    leaf: Leaf,
    axis: int,
    taken: list[list[int]],
    rng: np.random.Generator,
) -> list[int | None] | None:
    """For each output the axis that ``axis`` alone moves along; None where there is none.

    None as a whole where the leaf could not be moved.
    """
    extent = leaf.shape[axis]
    outputs = list(oracle.primal.codomain)
    open_ = [
        [o for o, n in enumerate(out.shape) if n == extent and o not in used]
        for out, used in zip(outputs, taken, strict=True)
    ]
    shape = [1] * len(leaf.shape)
    shape[axis] = extent
    for _ in range(TRIES):
        if not any(open_):
            break
        half = rng.permutation(np.arange(extent) < max(1, extent // 2))
        where = np.broadcast_to(half.reshape(shape), leaf.shape)
        changed = _changed(oracle, leaf, where, rng)
        if changed is None:
            return None
        for k, c in enumerate(changed):
            open_[k] = [o for o in open_[k] if not (_over(c, o) & ~half).any()]
    back = axis - len(leaf.shape)
    found: list[int | None] = []
    for out, mine in zip(outputs, open_, strict=True):
        same = [o for o in mine if o == axis or o - len(out.shape) == back]
        found.append(next(iter(same or mine), None))
    return found


def _over(changed: Array, axis: int) -> Array:
    others = tuple(a for a in range(changed.ndim) if a != axis)
    return np.asarray(changed.any(axis=others))


def _reached(oracle: Differences, leaf: Leaf, rng: np.random.Generator) -> list[bool]:
    """Which outputs change at all when the whole leaf is moved."""
    changed = _changed(oracle, leaf, np.ones(leaf.shape, bool), rng)
    if changed is None:
        return [True] * len(oracle.primal.codomain)
    return [bool(c.any()) for c in changed]


def _changed(
    oracle: Differences, leaf: Leaf, where: Array, rng: np.random.Generator
) -> list[Array] | None:
    """Elements of each output that change when the elements ``where`` are moved."""
    domain, x = oracle.primal.domain, oracle.point
    if leaf.is_complex:
        where = np.repeat(where[..., None], 2, axis=-1)
    size = oracle.scales()[leaf.slice]
    step = np.where(rng.random(leaf.size) < 0.5, -0.5, 0.5) * size
    moved = x.copy()
    moved[leaf.slice] += np.where(where.ravel(), step, 0.0)
    moved = domain.snap(np.clip(moved, domain.lows(), domain.highs()))
    value = oracle.ask(moved)
    if np.isnan(value).all():
        return None
    differs = (value != oracle.value) & ~(np.isnan(value) & np.isnan(oracle.value))
    out = []
    for leaf_out in oracle.primal.codomain:
        part = differs[leaf_out.slice].reshape(leaf_out.view_shape)
        out.append(part.any(axis=-1) if leaf_out.is_complex else part)
    return out
