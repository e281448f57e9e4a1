"""The backward breaks or errs when an output is unused."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} answers differently when an output is unused ({ways})",
    raised="{name} raises when an output is unused ({ways})",
    note="a loss that uses every output hides this",
    help="take out `ctx.set_materialize_grads(False)`, or treat a cotangent that is None as "
    "zeros",
    facts=("materialize",),
)

CARD = Card(
    "undefined-cotangent",
    Severity.ERROR,
    50,
    told("undefined-cotangent", _TOLD),
    layers=(WAYS,),
)
