"""A gradient of another shape than its input."""

from __future__ import annotations

from gradproof.diagnosis.card import FORM, Card
from gradproof.diagnosis.returned import form_of
from gradproof.verdict import Severity

_HELP = (
    "give it the shape of its input: `.expand` where it lacks elements, `.sum` over the "
    "axes that it has too many of, `.reshape` where only the layout differs"
)
_NOTE = "the engine sums a gradient to the shape of its input where it can, and never expands it"

CARD = Card(
    "wrong-shape",
    Severity.WARNING,
    70,
    form_of("wrong-shape", "shape", _HELP, _NOTE),
    layers=(FORM,),
)
