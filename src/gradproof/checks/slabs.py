"""Large arrays piece by piece, so that what is computed of them stays in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

MOST = 1 << 15  # entries of a piece

Index = tuple[slice, ...]


def slabs(shape: tuple[int, ...], most: int = MOST) -> Iterator[Index]:
    """Indices that cut an array of ``shape`` into packed pieces of at most ``most``."""
    inner = int(np.prod(shape, dtype=np.int64))
    if inner <= most:
        yield tuple(slice(0, n) for n in shape)
        return
    inner //= shape[0]
    rows = max(1, most // inner)
    for low in range(0, shape[0], rows):
        first = slice(low, min(shape[0], low + rows))
        if inner <= most:
            yield (first, *(slice(0, n) for n in shape[1:]))
        else:
            yield from ((first, *rest) for rest in slabs(shape[1:], most))


def folded(xp: Any, a: Any, keep: tuple[int, ...]) -> Any:
    """``a`` summed over all axes but ``keep``, which come in that order."""
    if not keep:
        return a.sum()
    first = tuple(range(len(keep)))
    moved = a if keep == first else xp.moveaxis(a, keep, first)
    if len(keep) == a.ndim:
        return moved
    return moved.reshape(*moved.shape[: len(keep)], -1).sum(-1)


def spread(xp: Any, cells: Any, keep: tuple[int, ...], ndim: int) -> Any:
    """The inverse: a number for each cell, for arrays of ``ndim`` axes to be used with."""
    if not keep:
        return cells
    wide = cells.reshape(*cells.shape, *(1,) * (ndim - len(keep)))
    return xp.moveaxis(wide, tuple(range(len(keep))), keep)


def within(index: Index, keep: tuple[int, ...]) -> Index:
    """The cells that a piece has a part in."""
    return tuple(index[axis] for axis in keep)
