"""The forward-mode rule disagrees."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="the jvp of {short} disagrees with the derivative",
    raised="the jvp of {short} raises",
    note="only forward mode runs it",
    help="multiply the tangent by the derivative of the forward, with the same factors that "
    "backward has",
    facts=("jvp",),
    of_output=True,
)

CARD = Card(
    "wrong-jvp",
    Severity.ERROR,
    42,
    told("wrong-jvp", _TOLD),
    layers=(WAYS,),
)
