"""Zeros for every input."""

from __future__ import annotations

from gradproof.diagnosis.algebra import zero_got
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.purpose import declare
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    every = Look.at(look.evidence)
    form = look.evidence.form
    if any(r.is_none for r in form.returned) or form.unused or form.cuts:
        return None
    if not every.panels or not all(zero_got(p).all() for p in every.panels):
        return None
    if len(every.wrong_leaves) != len(look.wrong_leaves) or not look.wrong_leaves:
        return None
    return Match(
        f"{look.name} returns zeros for every input",
        ("x̄ = 0 for every cotangent; the derivative is not 0",),
        note="training goes on, and nothing before this operation learns",
        help=declare("stop-gradient") + "; else return the gradient",
    )


CARD = Card("stop-gradient", Severity.ERROR, 96, _match)
