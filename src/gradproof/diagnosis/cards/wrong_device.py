"""A gradient on another device than its input."""

from __future__ import annotations

from gradproof.diagnosis.card import FORM, Card
from gradproof.diagnosis.returned import form_of
from gradproof.verdict import Severity

_HELP = "create the gradient on the device of its input (`torch.empty_like(x)`)"
_NOTE = "on one device this cannot be seen"

CARD = Card(
    "wrong-device",
    Severity.WARNING,
    65,
    form_of("wrong-device", "device", _HELP, _NOTE),
    layers=(FORM,),
)
