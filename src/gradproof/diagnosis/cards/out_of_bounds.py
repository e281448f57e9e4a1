"""Reads or writes outside its tensors."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} reads or writes outside {subjects}",
    note="what lies next to a tensor is usually mapped memory, so nothing crashes",
    help="mask loads and stores at the edge of the tensor",
)

CARD = Card(
    "out-of-bounds",
    Severity.ERROR,
    56,
    told("out-of-bounds", _TOLD),
    layers=(WAYS,),
    echoes=("layout-assumed",),
)
