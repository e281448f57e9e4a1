"""The identity forward, the cotangent times a constant backward."""

from __future__ import annotations

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.constants import name_constant
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.purpose import declare, identity, surrogate
from gradproof.diagnosis.words import number
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if not identity(look):
        return None
    found = ratio(look.panels)
    if found is None or found.mid <= 0 or found.holds(1.0):
        return None
    named = name_constant(found, (), look.evidence.scalars) or number(found.mid)
    return Match(
        f"{look.name} scales the gradient by {named}, and the forward changes nothing",
        (
            f"got / grad_output = {number(found.mid)} in {found.count} of {found.count} entries",
        ),
        note="a gradient scale is often meant; it is not the derivative",
        help=declare(
            "gradient-scaling",
            "return grad_output as it is",
            surrogate(look, f"{found.mid:.6g} * {{x}}"),
        ),
    )


CARD = Card("gradient-scaling", Severity.ERROR, 93, _match)
