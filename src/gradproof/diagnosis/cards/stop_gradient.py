"""Zeros for every input."""

from __future__ import annotations

from gradproof.diagnosis.algebra import zero_got
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.factors import formulas
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
        ("the gradient is 0 for every grad_output; the derivative is not",),
        note="training goes on, and nothing before this operation learns",
        help=declare("stop-gradient", _due(look)),
    )


def _due(look: Look) -> str:
    known = formulas(look)[0] if len(look.wrong_leaves) == 1 else None
    return f"return grad_output · {known.text}" if known else "return the derivative"


CARD = Card("stop-gradient", Severity.ERROR, 96, _match)
