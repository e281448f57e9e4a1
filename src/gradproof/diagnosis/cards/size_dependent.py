"""Wrong only for some sizes or ranks."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.elsewhere import failing, numbers, told
from gradproof.diagnosis.look import Look
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    settings = failing(look, "shape")
    if not settings:
        return None
    return Match(
        f"{look.name} is right at the size given and wrong for {settings[0].setting}",
        told(settings),
        note="a test at one size cannot see this",
        help="derive the loop bounds, strides and counts from the shape of each call",
        facts=("branch-size",),
        worst=numbers(settings[0]),
    )


CARD = Card("size-dependent", Severity.ERROR, 32, _match, layers=(ELSEWHERE,))
