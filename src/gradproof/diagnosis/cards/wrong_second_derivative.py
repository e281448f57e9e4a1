"""The derivative of the backward is wrong."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.elsewhere import failing, numbers, told
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.orders import detached
from gradproof.diagnosis.spans import applied
from gradproof.diagnosis.words import joined
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    settings = [e for e in failing(look, "order") if not detached(look, e)]
    if not settings:
        return None
    inner = [f"`{name}.backward`" for name in applied(look)]
    whose = joined(inner) or "the function that it applies"
    return Match(
        f"{look.name} is right, and its own derivative is wrong",
        told(settings),
        note="the gradient itself is right; a gradient penalty or a Hessian is not",
        help=f"mend {whose}: the backward of what a backward applies gives the second order",
        facts=("applies",),
        worst=numbers(settings[0]),
    )


CARD = Card("wrong-second-derivative", Severity.ERROR, 33, _match, layers=(ELSEWHERE,))
