"""Outputs or inputs are held on ctx."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} keeps {subjects} alive after the graph is gone",
    note="memory grows from step to step; the numbers are right",
    help="store tensors with `ctx.save_for_backward`, never as attributes of ctx",
    facts=("ctx-attribute",),
)

CARD = Card(
    "leaked-graph",
    Severity.WARNING,
    20,
    told("leaked-graph", _TOLD),
    layers=(WAYS,),
)
