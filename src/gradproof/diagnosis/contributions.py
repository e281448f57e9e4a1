"""Several contributions to one element, of which some arrive."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import planted, zero_got
from gradproof.diagnosis.look import Look, Panel
from gradproof.space import Leaf


def losses(p: Panel) -> int:
    """Columns that keep exactly one of several contributions; 0 where that is not it."""
    if not (zero_got(p)[p.bad].all() and p.bad.any()):
        return 0
    kept = p.ok & ~p.bad & ~zero_got(p)
    wrong = p.bad.any(axis=0)
    if not (kept[:, wrong].sum(axis=0) == 1).all():
        return 0
    # A whole output unheard, or one and the same for all: that is another mistake.
    rows = kept[:, wrong].any(axis=1)
    return int(wrong.sum()) if rows.sum() > 1 or wrong.sum() == 1 else 0


def another_output(look: Look, leaf: Leaf) -> bool:
    """One output's contribution is absent, though other inputs hear that output."""
    if len(look.evidence.codomain) < 2 or len(look.outputs) < 2:
        return False
    every = Look.at(look.evidence).block
    assert look.block is not None
    assert every is not None
    p = look.block.within(leaf)
    if not zero_got(p)[p.bad].all():
        return False
    silent = [out for out in look.evidence.codomain if p.below(out).bad.any()]
    whole = all(zero_got(p.below(out)).all() for out in silent)
    heard = all(not zero_got(every.below(out)).all() for out in silent)
    rest = any(not zero_got(p.below(o)).all() for o in look.evidence.codomain)
    return whole and heard and rest


def one_place(p: Panel, leaf: Leaf) -> bool:
    """All of x̄ is 0 but one row along the first axis, which holds another's gradient."""
    if len(leaf.shape) < 1 or len(p.cols) != leaf.size or leaf.shape[0] < 2:
        return False
    shape = (len(p.got), leaf.shape[0], -1)
    got = p.got.reshape(shape)
    live = np.flatnonzero((~zero_got(p)).reshape(shape).any(axis=(0, 2)))
    if len(live) != 1:
        return False
    for k in {leaf.shape[0] - 1, 0} - {int(live[0])}:
        made, error, ok = (
            np.zeros_like(got),
            np.zeros_like(got),
            np.ones(got.shape, bool),
        )
        made[:, live[0]] = p.want.reshape(shape)[:, k]
        error[:, live[0]] = p.bound.reshape(shape)[:, k]
        ok[:, live[0]] = p.ok.reshape(shape)[:, k]
        flat = p.got.shape
        if planted(p, made.reshape(flat), error.reshape(flat), ok.reshape(flat)).all():
            return True
    return False
