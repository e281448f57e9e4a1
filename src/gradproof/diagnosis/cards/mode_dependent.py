"""The backward answers differently in another mode of the engine."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} answers differently {ways}",
    raised="{name} raises {ways}",
    note="a test that asks by `autograd.grad` alone takes only one of the two paths",
    help="compute the same numbers whether or not a graph of the backward is recorded: no "
    "path for `torch.is_grad_enabled()` or `requires_grad`",
    facts=("branch-mode",),
)

CARD = Card(
    "mode-dependent",
    Severity.ERROR,
    43,
    told("mode-dependent", _TOLD),
    layers=(WAYS,),
)
