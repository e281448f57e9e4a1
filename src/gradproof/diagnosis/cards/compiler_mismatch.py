"""Another gradient under torch.compile than eagerly."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} gives another gradient when compiled than eagerly",
    raised="{name} raises when compiled",
    note="the eager rule may be right; it is the compiled program that is not",
    help="keep the operation out of the graph (`torch.compiler.disable`) and "
    "report it to the compiler",
)

CARD = Card(
    "compiler-mismatch",
    Severity.ERROR,
    40,
    told("compiler-mismatch", _TOLD),
    layers=(WAYS,),
)
