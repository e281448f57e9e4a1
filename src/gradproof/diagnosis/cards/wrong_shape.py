"""A gradient of another shape than its input."""

from __future__ import annotations

from gradproof.diagnosis.card import FORM, Card
from gradproof.diagnosis.returned import form_of
from gradproof.verdict import Severity

_HELP = "reshape or sum the gradient to the shape of its input"
_NOTE = "the engine expands or reshapes it in silence where it can"

CARD = Card(
    "wrong-shape",
    Severity.WARNING,
    70,
    form_of("wrong-shape", "shape", _HELP, _NOTE),
    layers=(FORM,),
)
