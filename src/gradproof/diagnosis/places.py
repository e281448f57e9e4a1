"""The right gradients at the wrong places."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import planted
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.structure import matching
from gradproof.space import Leaf


def sources(leaf: Leaf, axis: int, step: int, *, wrap: bool) -> np.ndarray:
    """For each coordinate, the one whose gradient stands there; -1 where nothing does."""
    at = np.arange(leaf.size).reshape(leaf.view_shape)
    moved = np.roll(at, step, axis)
    if not wrap:
        edge = [slice(None)] * at.ndim
        edge[axis] = slice(None, step) if step > 0 else slice(step, None)
        moved[tuple(edge)] = -1
    return moved.ravel()


def columns(look: Look, src: np.ndarray) -> bool:
    """Whether each column holds the gradient that is due at its source."""
    return bool(look.panels) and all(_fits(p, src) for p in look.panels)


def _fits(p: Panel, src: np.ndarray) -> bool:
    if len(p.cols) != len(src):
        return False
    gone = src < 0
    want = np.where(gone, 0.0, p.want[:, src])
    bound = np.where(gone, 0.0, p.bound[:, src])
    return bool(planted(p, want, bound, p.ok[:, src] | gone).all())


def permuted(look: Look) -> bool:
    """Whether the columns are those due, in another order; some may be lost."""
    p = look.block
    if (
        p is None
        or not p.ok.all()
        or len(p.cols) < 3
        or len(p.cols) != look.leaves[0].size
    ):
        return False
    found = matching(p.got, p.own, p.want, p.bound)
    if found is None:
        return False
    moved = (found != np.arange(len(found))) & (found >= 0)
    return bool(moved.sum() >= 2 and moved.sum() >= (found < 0).sum())
