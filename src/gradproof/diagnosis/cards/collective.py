"""Right only over all ranks."""

from __future__ import annotations

from gradproof.diagnosis.card import FIRST, WAYS, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.purpose import declare
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} communicates with other ranks ({subjects})",
    note="on one rank the gradient may not be the derivative, though over all it is",
    help=declare("collective", "check it on all ranks, or without the communication"),
)
_reported = told("collective", _TOLD)


def _match(look: Look) -> Match | None:
    return _reported(look)


CARD = Card("collective", Severity.ERROR, 101, _match, layers=(WAYS, FIRST))
