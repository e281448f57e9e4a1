"""Right up to a truncation of its own."""

from __future__ import annotations

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.constants import is_factor
from gradproof.diagnosis.elsewhere import failing, numbers, told
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import number
from gradproof.verdict import Elsewhere, Severity


def _match(look: Look) -> Match | None:
    settings = failing(look, "refine")
    if not settings:
        return None
    factor = _factor(settings[0])
    shared = (f"got / expected = {factor} in every entry there",) if factor else ()
    return Match(
        f"{look.name} is right up to a truncation of its own ({settings[0].setting})",
        (*(_sizes(look) or told(settings)), *shared),
        note="a looser tolerance lets this pass",
        help="look for a factor that tends to 1 as the setting is refined (a step, a "
        "count of steps) and that the backward leaves out"
        if factor
        else "tighten the solver in the backward as in the forward, or differentiate the "
        "steps that were taken",
        worst=numbers(settings[0]),
    )


def _factor(setting: Elsewhere) -> str:
    """The constant by which everything is off in that setting, if it is one."""
    found = ratio(Look.at(setting.evidence).panels) if setting.evidence else None
    return number(found.mid) if found is not None and is_factor(found) else ""


def _sizes(look: Look) -> tuple[str, ...]:
    """What each setting of ``refine=`` is off by."""
    return tuple(
        f"{e.setting}: {e.note}"
        for e in look.evidence.elsewhere
        if e.kind == "refine" and e.note and "off by" in e.note
    )


CARD = Card("inexact", Severity.WARNING, 20, _match, layers=(ELSEWHERE,))
