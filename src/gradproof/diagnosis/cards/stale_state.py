"""State is kept outside ctx, or was changed since."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card, Match
from gradproof.diagnosis.look import Look
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

_EDITED = Told(
    headline="{name} reads what stands in an input when it runs ({ways})",
    note="an update in place between forward and backward changes the gradient, and "
    "nothing is raised",
    help="store tensors with `ctx.save_for_backward`: then PyTorch raises when one of "
    "them was written on",
    facts=("ctx-attribute", "outer-state"),
)
_CALLED, _WRITTEN = told("stale-state", _TOLD), told("stale-state", _EDITED)


def _match(look: Look) -> Match | None:
    odd = [a for a in look.evidence.asked if not a.agreed and a.slug == "stale-state"]
    written = bool(odd) and all(a.factor == "edits" for a in odd)
    return (_WRITTEN if written else _CALLED)(look)


CARD = Card(
    "stale-state",
    Severity.ERROR,
    51,
    _match,
    layers=(WAYS,),
    echoes=("wrong-vmap", "mode-dependent", "reused-buffer"),
)
