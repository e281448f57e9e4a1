"""Wrong when one tensor is passed as two inputs."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} is wrong when one tensor is passed twice ({ways})",
    raised="{name} raises when one tensor is passed twice ({ways})",
    note="tests pass a tensor of its own for every input",
    help="do not write into an input or a saved tensor, and return a new tensor "
    "for each gradient",
)

CARD = Card(
    "aliased-inputs",
    Severity.ERROR,
    46,
    told("aliased-inputs", _TOLD),
    layers=(WAYS,),
)
