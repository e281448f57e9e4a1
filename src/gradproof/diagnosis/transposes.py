"""A map, or a matrix, that agrees once it is transposed."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import planted
from gradproof.diagnosis.look import Look, Panel
from gradproof.space import Leaf, Matrix


def map_transposed(look: Look, leaf: Leaf) -> bool:
    """Whether G = Jᵀ for every square block of the leaf that is wrong."""
    seen = False
    for into, out, q in look.on((leaf,)).pairs():
        if not q.bad.any():
            continue
        if into.size != out.size or q.rows is None:
            return False
        rows, cols = q.rows - out.start, q.cols - into.start
        p = q.part(np.isin(rows, cols), np.isin(cols, rows))
        if len(p.got) < 2 or not p.ok.all() or not p.bad.any():
            return False
        # An operator and its adjoint in the wrong order: off the diagonal with a minus.
        off = ~np.eye(len(p.got), dtype=bool)
        minus = np.where(off, -p.want.T, p.want)
        if not any(planted(p, m, p.bound.T).all() for m in (p.want.T, minus)):
            return False
        seen = True
    return seen


def _order(leaf: Leaf) -> np.ndarray | None:
    if leaf.is_complex or len(leaf.shape) < 2 or leaf.shape[-1] != leaf.shape[-2]:
        return None
    at = np.arange(leaf.size).reshape(leaf.shape)
    return np.swapaxes(at, -1, -2).ravel()


def leaf_transposed(look: Look, leaf: Leaf) -> bool:
    """Whether the gradient of a square matrix is returned transposed."""
    order = _order(leaf)
    panels = look.on((leaf,)).panels
    if order is None or not panels:
        return False
    return all(_fits(p, order) for p in panels)


def _fits(p: Panel, order: np.ndarray) -> bool:
    if len(p.cols) != len(order):
        return False
    return bool(planted(p, p.want[:, order], p.bound[:, order], p.ok[:, order]).all())


def mended(look: Look) -> tuple[Matrix, ...] | None:
    """x̄ with the last two axes exchanged."""
    if len(look.leaves) != 1:
        return None
    order = _order(look.leaves[0])
    if order is None or any(len(p.cols) != len(order) for p in look.panels):
        return None
    return tuple(p.got[:, order] for p in look.panels)
