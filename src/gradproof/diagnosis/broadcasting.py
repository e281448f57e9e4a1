"""What becomes of the axes along which an input was broadcast."""

from __future__ import annotations

from math import prod

import numpy as np

from gradproof.diagnosis.algebra import planted, zero_got
from gradproof.diagnosis.look import Panel
from gradproof.diagnosis.structure import (
    got_support,
    indices,
    relations,
    want_support,
)
from gradproof.diagnosis.words import joined
from gradproof.space import Leaf
from gradproof.verdict import Returned


def one_slice(p: Panel, into: Leaf, out: Leaf) -> str | None:
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


def total(p: Panel, into: Leaf) -> str | None:
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
                return f"got is {what} due, equal along axis {axis} of {into.path}"
    return None


def other_axis(p: Panel, into: Leaf, out: Leaf) -> str | None:
    """An axis of the output is summed over in the place of another."""
    due = relations(p, want_support(p), into, out)
    done = relations(p, got_support(p), into, out)
    lost, gained = due - done, done - due
    moved = [(b, c) for a, b in lost for d, c in gained if a == d]
    if not moved:
        return None
    b, c = moved[0]
    return f"axis {b} of {out.path} is summed over where axis {c} is due"


def broadcasts(r: Returned) -> bool:
    """Whether what was returned is the input's gradient before it is summed."""
    if prod(r.shape) <= prod(r.expected_shape):
        return False
    try:
        return np.broadcast_shapes(r.shape, r.expected_shape) == r.shape
    except ValueError:
        return False


def sums(into: Leaf, out: Leaf) -> str:
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
