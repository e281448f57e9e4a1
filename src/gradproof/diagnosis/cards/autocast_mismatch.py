"""The backward breaks or errs inside autocast."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card, Match
from gradproof.diagnosis.elsewhere import failing
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} answers differently {ways}",
    raised="{name} raises {ways}",
    note="a test outside autocast cannot see this",
    help='below @staticmethod put `@torch.amp.custom_fwd(device_type="cuda")` on forward and '
    '`@torch.amp.custom_bwd(device_type="cuda")` on backward, with the device that it runs on',
)
_match = told("autocast-mismatch", _TOLD)


def _own(look: Look) -> Match | None:
    """Unless it is the dtype that autocast casts to, and not autocast, that is wrong."""
    asked = [a for a in look.evidence.asked if a.slug == CARD.slug and not a.agreed]
    raised = any(a.failure is not None for a in asked)
    if failing(look, "dtype") and not raised:
        return None
    return _match(look)


CARD = Card(
    "autocast-mismatch",
    Severity.ERROR,
    44,
    _own,
    layers=(WAYS,),
)
