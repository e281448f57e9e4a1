"""The backward changes ȳ in place."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} changes its cotangent in place",
    note="the tensor belongs to the engine: another branch that receives it gets"
    " the changed numbers",
    help="write into a new tensor: `grad_output.clone()` first, or the form "
    "without a trailing underscore",
    facts=("writes-cotangent",),
)

CARD = Card(
    "mutated-cotangent",
    Severity.ERROR,
    54,
    told("mutated-cotangent", _TOLD),
    layers=(WAYS,),
    echoes=(
        "layout-assumed",
        "wrong-vmap",
        "stale-state",
        "mode-dependent",
        "aliased-inputs",
        "undefined-cotangent",
        "reused-buffer",
        "mutated-input",
    ),
)
