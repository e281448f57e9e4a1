"""A broadcast axis is not summed over, or the wrong one is."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.broadcasting import broadcasts, one_slice, other_axis, total
from gradproof.diagnosis.card import FIRST, FORM, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import joined
from gradproof.space import Leaf
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
                help=_sums(into, out),
            )
    return None


def _sums(into: Leaf, out: Leaf) -> str:
    """The axes that were broadcast: those that the input lacks or has of size 1."""
    lead = len(out.shape) - len(into.shape)
    axes = [
        k
        for k, n in enumerate(out.shape)
        if k < lead or (into.shape[k - lead] == 1 and n != 1)
    ]
    kept = "" if all(k < lead for k in axes) else ", keepdim=True"
    try:
        np.broadcast_shapes(into.shape, out.shape)
    except ValueError:
        axes = []
    if not axes:
        return (
            f"sum what {into.path} receives over every axis of {out.path} that it lacks, "
            "and over no other"
        )
    which = axes[0] if len(axes) == 1 else tuple(axes)
    return f"sum what {into.path} receives over {_axes(axes)}: `.sum({which}{kept})`"


def _axes(axes: list[int]) -> str:
    names = joined(map(str, axes))
    return f"axis {names}" if len(axes) == 1 else f"axes {names}"


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
