"""Cannot be used under torch.func."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} cannot be used {ways}",
    note="nothing is wrong with the gradient itself",
    help="write `setup_context` apart from `forward`, and set "
    "`generate_vmap_rule` or a `vmap` method",
)

CARD = Card(
    "unsupported-transform",
    Severity.NOTE,
    5,
    told("unsupported-transform", _TOLD),
    layers=(WAYS,),
)
