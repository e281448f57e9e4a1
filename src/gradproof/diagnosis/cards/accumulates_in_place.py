"""The gradient is added into a buffer on the side."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.purpose import declare
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} adds a gradient into a tensor by itself",
    note="`autograd.grad` looks right; `.backward()` then adds what is returned as well",
    help=declare(
        "accumulates-in-place",
        "take out the statement that adds (`w.grad += ...`) and return the gradient only",
    ),
    facts=("write",),
)

CARD = Card(
    "accumulates-in-place",
    Severity.ERROR,
    57,
    told("accumulates-in-place", _TOLD),
    layers=(WAYS,),
)
