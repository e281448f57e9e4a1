"""A broadcast axis is not summed over, or the wrong one is."""

from __future__ import annotations

from gradproof.diagnosis.broadcasting import (
    broadcasts,
    one_slice,
    other_axis,
    sums,
    total,
)
from gradproof.diagnosis.card import FIRST, FORM, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if look.layer == FORM:
        return _raw(look)
    if len(look.wrong_leaves) != 1:
        return None
    into = look.wrong_leaves[0]
    for _, out, p in look.on((into,)).pairs():
        if (
            not p.bad.any()
            or p.got.shape != (out.size, into.size)
            or out.size <= into.size
        ):
            continue
        fact = one_slice(p, into, out) or total(p, into) or other_axis(p, into, out)
        if fact is not None:
            return Match(
                f"{look.name} does not sum the gradient of {into.path} over the axis along "
                "which it was broadcast",
                (fact,),
                note="with one element along that axis (batch 1) this is right",
                help=sums(into, out),
            )
    return None


def _raw(look: Look) -> Match | None:
    """What backward returned has the output's shape; the engine sums it, in silence."""
    for r in look.evidence.form.returned:
        if not r.is_none and broadcasts(r):
            return Match(
                f"{look.name} returns the gradient of {r.path} without summing over the "
                "axis along which it was broadcast",
                (f"returned {list(r.shape)} for an input of {list(r.expected_shape)}",),
                note="autograd sums it to the input's shape; other callers do not",
                help="sum over the axes that the input was broadcast along",
                severity=Severity.WARNING,
            )
    return None


CARD = Card("unsummed-broadcast", Severity.ERROR, 78, _match, layers=(FORM, FIRST))
