"""Assigned where it must be added."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import planted, zero_got
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.words import joined, plural
from gradproof.space import Leaf
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if look.block is None or not look.wrong_leaves:
        return None
    paths = joined(a.path for a in look.wrong_leaves)
    lost = [_lost(look.block.within(a)) for a in look.wrong_leaves]
    if all(n > 0 for n in lost):
        return _say(look, paths, f"{plural(sum(lost), 'element')} of {paths} receive one of "
                    "several contributions, the others are lost")  # fmt: skip
    if len(look.wrong_leaves) == 1:
        leaf = look.wrong_leaves[0]
        if _another_output(look, leaf):
            return _say(look, paths, f"{paths} feeds several outputs; the contribution of "
                        "only some arrives")  # fmt: skip
        if _one_place(look.block.within(leaf), leaf):
            return _say(look, paths, "every row of x̄ is written to one row, so that only "
                        "the last survives")  # fmt: skip
    return None


def _say(look: Look, paths: str, fact: str) -> Match:
    return Match(
        f"{look.name} assigns where it must add, in the gradient of {paths}",
        (fact,),
        note="unique indices, windows that do not overlap, or one row hide this",
        help="accumulate: `index_add_`, `scatter_add_`, `index_put_(…, accumulate=True)` "
        "or `+=` in place of an assignment",
    )


def _lost(p: Panel) -> int:
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


def _another_output(look: Look, leaf: Leaf) -> bool:
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


def _one_place(p: Panel, leaf: Leaf) -> bool:
    """All of x̄ is 0 but one row along the first axis, which holds another's gradient."""
    if len(leaf.shape) < 1 or len(p.cols) != leaf.size or leaf.shape[0] < 2:
        return False
    shape = (len(p.got), leaf.shape[0], -1)
    got = p.got.reshape(shape)
    live = np.flatnonzero((~zero_got(p)).reshape(shape).any(axis=(0, 2)))
    if len(live) != 1:
        return False
    for k in (leaf.shape[0] - 1, 0):
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


CARD = Card("overwritten-accumulation", Severity.ERROR, 72, _match)
