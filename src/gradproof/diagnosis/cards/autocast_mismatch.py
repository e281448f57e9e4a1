"""The backward breaks or errs inside autocast."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} answers differently {ways}",
    raised="{name} raises {ways}",
    note="a test outside autocast cannot see this",
    help="decorate forward with `torch.amp.custom_fwd` and backward with "
    "`torch.amp.custom_bwd`",
)

CARD = Card(
    "autocast-mismatch",
    Severity.ERROR,
    44,
    told("autocast-mismatch", _TOLD),
    layers=(WAYS,),
)
