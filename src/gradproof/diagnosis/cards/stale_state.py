"""State is kept outside ctx, or was changed since."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} depends on what was called before ({ways})",
    raised="{name} raises when called again ({ways})",
    note="a test that runs one forward and then its backward cannot see this",
    help="keep what backward needs on ctx (`ctx.save_for_backward`), not on the "
    "class, the module or a global",
    facts=("outer-state",),
)

CARD = Card(
    "stale-state",
    Severity.ERROR,
    51,
    told("stale-state", _TOLD),
    layers=(WAYS,),
    echoes=("wrong-vmap", "mode-dependent", "reused-buffer"),
)
