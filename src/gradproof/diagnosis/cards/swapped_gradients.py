"""The gradients of two inputs are returned in each other's place."""

from __future__ import annotations

from itertools import combinations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.places import exchange, fits, undone
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    for a, b in combinations(look.wrong_leaves, 2):
        source = exchange(a, b, look.evidence.domain) if a.size == b.size else None
        pair = look.on((a, b))
        if source is not None and fits(pair, source):
            return Match(
                f"{look.name} returns the gradients of {a.path} and {b.path} in each "
                "other's place",
                (f"exchanged, they are right for both {a.path} and {b.path}",),
                note="the shapes are equal, so nothing crashes",
                help=f"exchange the gradients of {a.path} and {b.path}",
                repaired=undone(pair, source),
                agreed="got with both exchanged",
                paths=(a.path, b.path),
                swap=(a.path, b.path),
            )
    return None


CARD = Card("swapped-gradients", Severity.ERROR, 88, _match)
