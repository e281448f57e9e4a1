"""The backward takes ȳ or a saved input to be contiguous."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} answers differently with {ways}, though the numbers are the same",
    raised="{name} raises with {ways}, though the numbers are the same",
    note="tests send contiguous tensors; `.sum()`, `cat`, slices and transposes send others",
    help="where memory is read, read a copy, `.clone(memory_format=torch.contiguous_format)`, of "
    "the cotangent and of inputs (`.contiguous()` keeps an offset), or use strides and offset",
    facts=("layout",),
)

CARD = Card(
    "layout-assumed",
    Severity.ERROR,
    50,
    told("layout-assumed", _TOLD),
    layers=(WAYS,),
)
