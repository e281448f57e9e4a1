"""Off by one, or permuted, in index or time."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import planted
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.slices import shifts
from gradproof.diagnosis.structure import matching, scattered
from gradproof.space import Leaf
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if len(look.wrong_leaves) == 1:
        leaf = look.wrong_leaves[0]
        for axis, step in shifts(leaf.shape):
            for wrap in (True, False):
                src = _sources(leaf, axis, step, wrap=wrap)
                if _columns(look, src):
                    return _say(look, f"x̄ is {_by(step)} along axis {axis} of {leaf.path}",
                                leaf.path)  # fmt: skip
        if _permuted(look):
            return _say(
                look, f"the entries of x̄ are permuted in {leaf.path}", leaf.path
            )
        for _, out, p in look.pairs():
            along = scattered(p, leaf)
            if along is not None:
                return _say(look, f"what {out.path} owes one index along axis {along} of "
                            f"{leaf.path} is given to another", leaf.path)  # fmt: skip
    return _rows(look)


def _by(step: int) -> str:
    return f"shifted by {abs(step)} ({'late' if step > 0 else 'early'})"


def _say(look: Look, how: str, path: str) -> Match:
    return Match(
        f"{look.name} puts the gradient of {path} at the wrong index",
        (f"{how}; undone, it agrees with the oracle",),
        note="sums and norms of the gradient are right, and so are constant inputs",
        help="check the index arithmetic: which output each element of the input feeds",
    )


def _sources(leaf: Leaf, axis: int, step: int, *, wrap: bool) -> np.ndarray:
    """For each coordinate, the one whose gradient stands there; -1 where nothing does."""
    at = np.arange(leaf.size).reshape(leaf.view_shape)
    moved = np.roll(at, step, axis)
    if not wrap:
        edge = [slice(None)] * at.ndim
        edge[axis] = slice(None, step) if step > 0 else slice(step, None)
        moved[tuple(edge)] = -1
    return moved.ravel()


def _columns(look: Look, src: np.ndarray) -> bool:
    return bool(look.panels) and all(_fits(p, src) for p in look.panels)


def _fits(p: Panel, src: np.ndarray) -> bool:
    if len(p.cols) != len(src):
        return False
    gone = src < 0
    want = np.where(gone, 0.0, p.want[:, src])
    bound = np.where(gone, 0.0, p.bound[:, src])
    return bool(planted(p, want, bound, p.ok[:, src] | gone).all())


def _permuted(look: Look) -> bool:
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


def _rows(look: Look) -> Match | None:
    """The cotangent is read at another index: rows of the Jacobian are permuted."""
    for out in look.outputs:
        if look.block is None:
            return None
        p = look.block.below(out)
        if not p.bad.any():
            continue
        if out.size < 3 or len(p.got) != out.size or not p.ok.all():
            return None
        found = matching(p.got.T, p.own.T, p.want.T, p.bound.T)
        if found is None or (found < 0).any():
            return None
        return Match(
            f"{look.name} reads the cotangent of {out.path} at the wrong index",
            ("the rows of the Jacobian are right, in another order",),
            note="a constant cotangent, as of `.sum()`, hides this",
            help="check the index arithmetic of the cotangent",
        )
    return None


CARD = Card("shifted-index", Severity.ERROR, 69, _match)
