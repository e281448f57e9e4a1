"""A broadcast axis is not summed over, or the wrong one is."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import planted, zero_got
from gradproof.diagnosis.card import FIRST, FORM, Card, Match
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.structure import (
    got_support,
    indices,
    relations,
    want_support,
)
from gradproof.space import Leaf
from gradproof.verdict import Returned, Severity


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
        fact = _one_slice(p, into, out) or _total(p, into) or _other_axis(p, into, out)
        if fact is not None:
            return Match(
                f"{look.name} does not sum the gradient of {into.path} over the axis along "
                "which it was broadcast",
                (fact,),
                note="with one element along that axis (batch 1) this is right",
                help=f"sum the cotangent's contribution over every axis of {out.path} that "
                f"{into.path} lacks, and over no other",
            )
    return None


def _one_slice(p: Panel, into: Leaf, out: Leaf) -> str | None:
    """Only one index along an axis of the output contributes."""
    if not zero_got(p)[p.bad].all():
        return None
    assert p.rows is not None
    tied = {b for _, b in relations(p, want_support(p), into, out)}
    for axis, at in enumerate(indices(out, p.rows)):
        if axis in tied or not out.shape or out.shape[axis] < 2:
            continue
        live = np.unique(at[got_support(p).any(axis=1)])
        if len(live) == 1:
            return f"only index {live[0]} along axis {axis} of {out.path} contributes"
    return None


def _total(p: Panel, into: Leaf) -> str | None:
    """Every element receives the sum of what all elements along an axis are due."""
    if not p.ok.all():
        return None
    for axis, n in enumerate(into.shape):
        if n < 2 or into.is_complex:
            continue
        shape = (len(p.got), *into.shape)
        due, errors = p.want.reshape(shape), p.bound.reshape(shape)
        for what, weight in (
            ("the sum of what is", np.ones(n)),
            ("the mean of what is", np.full(n, 1 / n)),
            ("what index 0 is", np.eye(n)[0]),
            ("what the last index is", np.eye(n)[-1]),
        ):
            made = np.expand_dims(np.tensordot(due, weight, (axis + 1, 0)), axis + 1)
            room = np.expand_dims(np.tensordot(errors, weight, (axis + 1, 0)), axis + 1)
            full = np.broadcast_to(made, shape).reshape(p.got.shape)
            error = np.broadcast_to(room, shape).reshape(p.got.shape)
            if planted(p, full, error).all():
                return f"x̄ is {what} due, equal along axis {axis} of {into.path}"
    return None


def _other_axis(p: Panel, into: Leaf, out: Leaf) -> str | None:
    due = relations(p, want_support(p), into, out)
    done = relations(p, got_support(p), into, out)
    lost, gained = due - done, done - due
    moved = [(b, c) for a, b in lost for d, c in gained if a == d]
    if not moved:
        return None
    b, c = moved[0]
    return f"axis {b} of {out.path} is summed over where axis {c} is due"


def _raw(look: Look) -> Match | None:
    """What backward returned has the output's shape; the engine sums it, in silence."""
    for r in look.evidence.form.returned:
        if not r.is_none and _broadcasts(r):
            return Match(
                f"{look.name} returns the gradient of {r.path} without summing over the "
                "axis along which it was broadcast",
                (f"returned {list(r.shape)} for an input of {list(r.expected_shape)}",),
                note="autograd sums it to the input's shape; other callers do not",
                help="sum over the axes that the input was broadcast along",
                severity=Severity.WARNING,
            )
    return None


def _broadcasts(r: Returned) -> bool:
    if r.shape == r.expected_shape:
        return False
    try:
        return np.broadcast_shapes(r.shape, r.expected_shape) == r.shape
    except ValueError:
        return False


CARD = Card("unsummed-broadcast", Severity.ERROR, 78, _match, layers=(FORM, FIRST))
