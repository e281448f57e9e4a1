"""Computed in a lower precision than its inputs have."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.card import COTANGENT, FIRST, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.requests import BlockAt, Request
from gradproof.diagnosis.rounding import (
    NUDGED,
    additivity,
    drawn_anew,
    errors,
    few_bits,
    forward_alike,
    precision,
)
from gradproof.space import unit
from gradproof.verdict import Severity

_LIKE = dict.fromkeys(("float16", "bfloat16"), "float16 or bfloat16")


def _match(look: Look) -> Match | None:
    found = additivity(look) if look.layer == COTANGENT else errors(look)
    if found is None:
        return None
    if look.layer == FIRST and not (few_bits(look) or drawn_anew(look)):
        return None
    error, what = found
    name = precision(look, error)
    if name is None:
        return None
    wide = look.evidence.domain.leaves[0].precision
    # A forward of the same precision is consistent with it, and its author's choice.
    mild = unit(name) < 1e-6 or any(
        forward_alike(look, n) for n in ("float16", "bfloat16") if unit(n) >= unit(name)
    )
    harm = Severity.WARNING if mild else Severity.ERROR
    return Match(
        f"{look.name} computes in a lower precision than {wide}",
        (
            what,
            f"the errors look like rounding to {_LIKE.get(name, name)}, up and down alike",
        ),
        note="a tolerance for float32 lets this pass in float64",
        help=f"keep intermediates in {wide}: take out `.float()`, `.half()`, `.bfloat16()`, "
        "float32 constants and buffers",
        severity=harm,
        facts=("cast",),
    )


def _wants(look: Look) -> tuple[Request, ...]:
    """The same Jacobian a hair away: rounding errors are drawn anew there."""
    b, e = look.evidence.block, look.evidence
    if look.layer != FIRST or b is None or errors(look) is None:
        return ()
    nudge = 2.0**-14 * np.cos(np.arange(e.domain.size))
    return (BlockAt(NUDGED, e.domain.snap(e.point * (1 + nudge)), b.rows, b.cols),)


CARD = Card(
    "hidden-low-precision",
    Severity.WARNING,
    45,
    _match,
    _wants,
    layers=(COTANGENT, FIRST),
)
