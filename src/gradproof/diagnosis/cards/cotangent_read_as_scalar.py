"""One number stands for all of ȳ: its first element, its mean, its sum."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY, planted, rank
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.cotangents import pairs, wanted
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.words import gradient_of
from gradproof.space import Vector
from gradproof.verdict import Severity

_READS = {"mean": "the mean of grad_output", "sum": "the sum of grad_output"}


def _match(look: Look) -> Match | None:
    if sum(a.size for a in look.outputs) < 2 or not look.wrong_leaves:
        return None
    reads = _of_block(look.block) if look.whole and look.block else _of_probes(look)
    if reads is None:
        return None
    several = len(look.evidence.domain) > len(look.wrong_leaves)
    of = f" for {gradient_of(a.path for a in look.wrong_leaves)}" if several else ""
    return Match(
        f"{look.name} reads its cotangent as one number{of}",
        (f"the gradient is always the same vector, multiplied by {reads}",),
        note="`y.sum().backward()` and `.mean()` send a constant grad_output, and for it "
        "this is right",
        help="multiply by grad_output itself, element by element, before anything is summed",
    )


def _of_block(p: Panel) -> str | None:
    """Whether G = s ⊗ (Jᵀ1), with s one element, the mean or the sum."""
    if not (p.ok.all() and np.isfinite(p.got).all()):
        return None
    total, error = p.want.sum(axis=0), p.bound.sum(axis=0)
    if not np.any(np.abs(total) > 8 * error):
        return None
    m = len(p.got)
    weights: list[tuple[str, Vector]] = [
        ("mean", np.full(m, 1 / m)),
        ("sum", np.ones(m)),
    ]
    live = np.flatnonzero((np.abs(p.got) > AMPLIFY * p.own).any(axis=1))
    if len(live) == 1:
        weights = [(f"element {live[0]} of grad_output", np.eye(m)[live[0]])]
    for name, s in weights:
        made, room = s[:, None] * total, np.abs(s)[:, None] * error
        if planted(p, made, room).all():
            return _READS.get(name, name)
    return None


def _of_probes(look: Look) -> str | None:
    """Whether different cotangents give parallel x̄ where they ought not to."""
    for p in pairs(look):
        if not np.isfinite(p.got).all():
            continue
        known = p.ok.all(axis=0)
        if known.sum() < 2:
            continue
        # Columns that are 0 for all cotangents say nothing of how these are read.
        known &= (np.abs(p.got) > AMPLIFY * p.own).any(axis=0)
        got, want = p.got[:2, known], p.want[:2, known]
        few = AMPLIFY * p.own[:2, known]
        if rank(got, few) == 1 and rank(want, p.bound[:2, known]) == 2:
            return "one number taken from grad_output"
    return None


CARD = Card("cotangent-read-as-scalar", Severity.ERROR, 95, _match, wanted)
