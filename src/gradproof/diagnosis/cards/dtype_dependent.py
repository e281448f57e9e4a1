"""Right in one dtype and wrong in another."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.elsewhere import failing, numbers, told
from gradproof.diagnosis.look import Look
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    settings = failing(look, "dtype")
    if not settings:
        return None
    return Match(
        f"{look.name} is right in one dtype and wrong in {settings[0].setting}",
        told(settings),
        note="tests in float64 take another path than training",
        help="use the same formula in every dtype, and accumulate in a wider one",
        worst=numbers(settings[0].evidence),
    )


CARD = Card("dtype-dependent", Severity.ERROR, 31, _match, layers=(ELSEWHERE,))
