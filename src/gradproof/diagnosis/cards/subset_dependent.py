"""The answer depends on which inputs require grad."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} depends on which inputs require grad ({ways})",
    raised="{name} raises when some inputs do not require grad ({ways})",
    note="tests let every input require grad; a frozen layer or a first layer does not",
    help="compute the gradient of input i under `ctx.needs_input_grad[i]` and no other, and "
    "save what it needs whichever inputs need one",
    facts=("branch-needs",),
)

CARD = Card(
    "subset-dependent",
    Severity.ERROR,
    48,
    told("subset-dependent", _TOLD),
    layers=(WAYS,),
)
