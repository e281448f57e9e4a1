"""The backward takes ȳ or a saved input to be contiguous."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} answers differently with {ways}, though the numbers are the same",
    raised="{name} raises with {ways}, though the numbers are the same",
    note="tests send contiguous tensors; `.sum()`, `cat`, slices and transposes "
    "downstream do not",
    help="call `.contiguous()` on the cotangent and on inputs before their "
    "memory is read, or use their strides and offset",
    facts=("layout",),
)

CARD = Card(
    "layout-assumed",
    Severity.ERROR,
    50,
    told("layout-assumed", _TOLD),
    layers=(WAYS,),
)
