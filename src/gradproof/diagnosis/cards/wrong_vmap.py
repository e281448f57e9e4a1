"""The batching rule disagrees with a loop."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{short} gives another answer under vmap than a loop does",
    raised="{short} raises under vmap",
    note="nothing calls the batching rule until someone vectorises",
    help="test `in_dims[i] is None`, not its truth (dimension 0 is false), and "
    "move each batch dimension to the front",
    facts=("branch-truth", "vmap"),
)

CARD = Card(
    "wrong-vmap",
    Severity.ERROR,
    41,
    told("wrong-vmap", _TOLD),
    layers=(WAYS,),
)
