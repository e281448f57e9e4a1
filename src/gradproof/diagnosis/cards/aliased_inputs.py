"""Wrong when one tensor is passed as two inputs."""

from __future__ import annotations

from gradproof.diagnosis.card import WAYS, Card
from gradproof.diagnosis.reported import Told, told
from gradproof.verdict import Severity

_TOLD = Told(
    headline="{name} is wrong when one tensor is passed twice ({ways})",
    raised="{name} raises when one tensor is passed twice ({ways})",
    note="tests pass a tensor of its own for every input; for a shared one both gradients add",
    help="return each input's own contribution, in a tensor of its own, whether or not two "
    "inputs are one: no path for `a is b` or an equal `data_ptr()`, no write into an input",
    facts=("branch-alias", "write"),
)

CARD = Card(
    "aliased-inputs",
    Severity.ERROR,
    46,
    told("aliased-inputs", _TOLD),
    layers=(WAYS,),
)
