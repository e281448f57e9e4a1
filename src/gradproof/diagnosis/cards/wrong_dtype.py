"""A gradient of another dtype than its input."""

from __future__ import annotations

from gradproof.diagnosis.card import FORM, Card
from gradproof.diagnosis.returned import form_of
from gradproof.verdict import Severity

_HELP = (
    "return the gradient in the dtype of its input (`.to(x.dtype)`), "
    "computed in a wider one if need be"
)
_NOTE = "the engine casts it in silence; the digits lost before stay lost"

CARD = Card(
    "wrong-dtype",
    Severity.WARNING,
    60,
    form_of("wrong-dtype", "dtype", _HELP, _NOTE, ("cast",)),
    layers=(FORM,),
)
