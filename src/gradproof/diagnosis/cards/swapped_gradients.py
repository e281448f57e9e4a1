"""The gradients of two inputs are returned in each other's place."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.space import Leaf, Matrix
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    for a, b in combinations(look.wrong_leaves, 2):
        if a.size == b.size and _exchange(look, a, b):
            return Match(
                f"{look.name} returns the gradients of {a.path} and {b.path} in each "
                "other's place",
                (f"exchanged, x̄ is right for both {a.path} and {b.path}",),
                note="the shapes are equal, so nothing crashes",
                help=f"exchange the gradients of {a.path} and {b.path}",
                repaired=_swapped(look, a, b),
                agreed="x̄ with both exchanged",
                paths=(a.path, b.path),
                swap=(a.path, b.path),
            )
    return None


def _exchange(look: Look, a: Leaf, b: Leaf) -> bool:
    seen = False
    for panel in look.panels:
        p, q = panel.within(a), panel.within(b)
        if p.got.shape != q.got.shape:
            return False
        for one, other in ((p, q), (q, p)):
            both = one.ok & other.ok
            gap = np.abs(one.got - other.want)
            room = other.bound + AMPLIFY * (one.own + other.own)
            if not (gap <= room)[both].all():
                return False
            seen = seen or bool(both.any())
    return seen


def _swapped(look: Look, a: Leaf, b: Leaf) -> tuple[Matrix, ...] | None:
    if {leaf.path for leaf in look.leaves} != {a.path, b.path}:
        return None
    out = []
    for panel in look.panels:
        if len(panel.within(a).cols) != a.size or len(panel.within(b).cols) != b.size:
            return None
        repaired = panel.got.copy()
        first = (panel.cols >= a.start) & (panel.cols < a.start + a.size)
        repaired[:, first] = panel.got[:, ~first]
        repaired[:, ~first] = panel.got[:, first]
        out.append(repaired)
    return tuple(out)


CARD = Card("swapped-gradients", Severity.ERROR, 88, _match)
