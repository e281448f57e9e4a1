"""A step in the forward, the identity in the backward."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.purpose import declare, idle, surrogate
from gradproof.space import Leaf
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    passed = [a for a in look.wrong_leaves if idle(look, a) and _passes(look, a)]
    if not passed:
        return None
    rest = [a for a in look.wrong_leaves if a not in passed]
    if any(a.size > 1 for a in rest):
        return None
    leaf = passed[0]
    return Match(
        f"{look.name} passes the cotangent straight through, and the forward is a step "
        f"in {leaf.path}",
        ("the derivative is 0 wherever it exists; the gradient is grad_output (or 0)",),
        note="a straight-through estimator is often meant; it is not the derivative",
        help=declare(
            "straight-through",
            "return zeros, which the derivative is",
            surrogate(look, "{x}") if _everywhere(look, leaf) else "",
        ),
    )


def _passes(look: Look, leaf: Leaf) -> bool:
    return any(_ones(p, leaf, look) for p in look.panels)


def _everywhere(look: Look, leaf: Leaf) -> bool:
    """Whether every cotangent is passed on, and none is masked out."""
    panels = [p.within(leaf) for p in look.panels if p.rows is not None]
    return all((np.count_nonzero(p.got, axis=1) > 0).all() for p in panels)


def _ones(p: Panel, leaf: Leaf, look: Look) -> bool:
    """Whether the rows are those of the identity, but for some that are 0."""
    out = look.evidence.codomain.leaves[0]
    if p.rows is None or leaf.size != out.size:
        return False
    mine = p.within(leaf)
    on = (p.rows - out.start)[:, None] == (mine.cols - leaf.start)[None, :]
    room = AMPLIFY * mine.own + 1e-6
    one, zero = np.abs(mine.got - 1.0) <= room, np.abs(mine.got) <= room
    return bool(np.all(zero[~on]) and np.all((one | zero)[on]) and one[on].any())


CARD = Card("straight-through", Severity.ERROR, 99, _match)
