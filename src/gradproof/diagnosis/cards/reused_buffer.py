"""A buffer is returned that a later call overwrites."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} returns a buffer that its next call overwrites",
    note="a test that reads each result before the next call cannot see this",
    help="return a tensor of its own each time: allocate it inside backward, or return the "
    "buffer's `.clone()`",
    returned=True,
    facts=("outer-state",),
)

CARD = Card(
    "reused-buffer",
    Severity.ERROR,
    52,
    told("reused-buffer", _TOLD),
    layers=(WAYS,),
    echoes=("wrong-vmap", "mode-dependent"),
)
