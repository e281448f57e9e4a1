"""Right in one dtype and wrong in another."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.elsewhere import failing, numbers, told
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import joined
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    settings = failing(look, "dtype")
    if not settings:
        return None
    home, there = _home(look), settings[0].setting
    if home == there:  # proved in float64, and asked once more as it was given
        home = "float64"
    return Match(
        f"{look.name} is right in {home} and wrong in {there}",
        told(settings),
        note="tests in float64 take another path than training",
        help="take the same path in every dtype: no condition on `x.dtype`, no constant or "
        "table that is right for one of them",
        facts=("branch-dtype",),
        worst=numbers(settings[0]),
    )


def _home(look: Look) -> str:
    return joined(dict.fromkeys(leaf.dtype for leaf in look.evidence.domain))


CARD = Card("dtype-dependent", Severity.ERROR, 31, _match, layers=(ELSEWHERE,))
