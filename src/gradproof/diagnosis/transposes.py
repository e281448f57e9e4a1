"""A map, or a matrix, that agrees once it is transposed."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import planted
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.places import fits, transposition, undone
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


def leaf_transposed(look: Look, leaf: Leaf) -> bool:
    """Whether the gradient of a square matrix is returned transposed."""
    source = transposition(leaf, look.evidence.domain)
    return source is not None and fits(look.on((leaf,)), source)


def mended(look: Look) -> tuple[Matrix, ...] | None:
    """x̄ with the last two axes exchanged."""
    if len(look.leaves) != 1:
        return None
    source = transposition(look.leaves[0], look.evidence.domain)
    return None if source is None else undone(look, source)
