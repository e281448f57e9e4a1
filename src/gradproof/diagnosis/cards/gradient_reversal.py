"""The identity forward, minus the cotangent backward."""

from __future__ import annotations

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.purpose import declare, identity
from gradproof.diagnosis.words import number
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if not identity(look):
        return None
    found = ratio(look.panels)
    if found is None or found.mid >= 0:
        return None
    return Match(
        f"{look.name} reverses the gradient, and the forward changes nothing",
        (f"x̄ / ȳ = {number(found.mid)} in {found.count} of {found.count} entries",),
        note="a reversal is often meant (adversarial training); it is not the derivative",
        help=declare("gradient-reversal"),
    )


CARD = Card("gradient-reversal", Severity.ERROR, 94, _match)
