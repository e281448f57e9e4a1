"""The identity forward, a clipped cotangent backward."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.card import COTANGENT, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.purpose import declare, identity
from gradproof.diagnosis.words import number
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    lin = look.linearity
    if lin is None or lin.large is None or "homogeneous" not in lin.broken():
        return None
    if "zero" in lin.broken() or not identity(look):
        return None
    live = np.abs(lin.once) > 4 * lin.slack
    if not live.any():
        return None
    growth = float(np.abs(lin.large[live] / lin.once[live]).max())
    if growth > 0.9 * lin.large_factor:
        return None
    most = float(np.abs(lin.large).max())
    return Match(
        f"{look.name} clips the gradient, and the forward changes nothing",
        (
            f"for grad_output times {number(lin.large_factor)}, no entry exceeds {number(most)}",
        ),
        note="a clip inside the graph is often meant; it is not the derivative",
        help=declare("gradient-clipping", "return grad_output as it is"),
    )


CARD = Card("gradient-clipping", Severity.ERROR, 60, _match, layers=(COTANGENT,))
