"""A smooth gradient for a forward that is a step."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.purpose import declare, still
from gradproof.diagnosis.words import joined
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if not look.wrong_leaves or not still(look):
        return None
    paths = joined(a.path for a in look.wrong_leaves)
    return Match(
        f"{look.name} gives a gradient for {paths}, and the forward is constant "
        "around the point that was asked",
        ("the derivative is 0 in every entry that was measured; the gradient is not",),
        note="a surrogate gradient is often meant; it is not the derivative",
        help=declare(
            "surrogate-gradient",
            "return zeros, which the derivative is",
            "",
        ),
    )


CARD = Card("surrogate-gradient", Severity.ERROR, 97, _match)
