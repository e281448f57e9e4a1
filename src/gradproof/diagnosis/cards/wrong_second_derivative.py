"""The derivative of the backward is wrong."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.elsewhere import failing, numbers, told
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.orders import detached
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    settings = [e for e in failing(look, "order") if not detached(look, e)]
    if not settings:
        return None
    return Match(
        f"{look.name} has a wrong derivative of its own",
        told(settings),
        note="the gradient itself is right; a gradient penalty or a Hessian is not",
        help="check the function that the backward applies: its own backward is the "
        "second derivative",
        worst=numbers(settings[0].evidence),
    )


CARD = Card("wrong-second-derivative", Severity.ERROR, 33, _match, layers=(ELSEWHERE,))
