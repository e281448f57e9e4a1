"""An input or saved tensor is changed without a mark."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} changes {subjects} in place",
    note="the values that other operations saved are silently replaced",
    help="compute in a new tensor, or write on a copy (`.clone()`): never on an input or on a "
    "saved tensor",
    facts=("write",),
)

CARD = Card(
    "mutated-input",
    Severity.ERROR,
    53,
    told("mutated-input", _TOLD),
    layers=(WAYS,),
    echoes=(
        "layout-assumed",
        "wrong-vmap",
        "stale-state",
        "mode-dependent",
        "aliased-inputs",
        "undefined-cotangent",
        "reused-buffer",
    ),
)
