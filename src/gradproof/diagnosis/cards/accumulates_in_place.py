"""The gradient is added into a buffer on the side."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} adds a gradient to {subjects} itself",
    note="`autograd.grad` looks right; `.backward()` then counts it again, or a "
    "dummy is returned on purpose",
    help="return the gradient only; if this is meant, declare it: "
    'allow=("accumulates-in-place",)',
)

CARD = Card(
    "accumulates-in-place",
    Severity.ERROR,
    57,
    told("accumulates-in-place", _TOLD),
    layers=(WAYS,),
)
