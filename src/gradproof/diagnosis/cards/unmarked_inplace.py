"""The forward modifies an input without mark_dirty."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="the forward of {short} modifies {subjects} in place without `mark_dirty`",
    note="whoever still needs the old value gets the new one, and no error is raised",
    help="return a new tensor, or call `ctx.mark_dirty(x)` in forward and return x",
    facts=("forward-write", "forward"),
)

CARD = Card(
    "unmarked-inplace",
    Severity.ERROR,
    55,
    told("unmarked-inplace", _TOLD),
    layers=(WAYS,),
    echoes=(
        "mutated-input",
        "layout-assumed",
        "wrong-vmap",
        "stale-state",
        "mode-dependent",
        "aliased-inputs",
        "undefined-cotangent",
        "reused-buffer",
        "subset-dependent",
    ),
)
