"""Right up to a truncation of its own."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.elsewhere import failing, numbers, told
from gradproof.diagnosis.look import Look
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    settings = failing(look, "refine")
    if not settings:
        return None
    return Match(
        f"{look.name} is right up to a truncation of its own ({settings[0].setting})",
        _sizes(look) or told(settings),
        note="a looser tolerance lets this pass",
        help="tighten the solver in the backward as in the forward, or differentiate the steps that were taken",
        worst=numbers(settings[0].evidence),
    )


def _sizes(look: Look) -> tuple[str, ...]:
    """What each setting of ``refine=`` is off by."""
    return tuple(
        f"{e.setting}: {e.note}"
        for e in look.evidence.elsewhere
        if e.kind == "refine" and e.note and "off by" in e.note
    )


CARD = Card("inexact", Severity.WARNING, 20, _match, layers=(ELSEWHERE,))
