"""The backward never uses ȳ, or has a term that does not."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import affine
from gradproof.diagnosis.card import COTANGENT, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import times_cotangent
from gradproof.diagnosis.words import ORDINARY, gradient_of
from gradproof.space import Leaf
from gradproof.verdict import Linearity, Severity


def _match(look: Look) -> Match | None:
    lin = look.linearity
    if lin is None or lin.zero is None or not np.any(lin.zero != 0):
        return None
    broken = _broken_leaves(look, lin)
    whole = [
        leaf
        for leaf in broken
        if np.array_equal(lin.zero[leaf.slice], lin.once[leaf.slice])
        and (lin.scaled is None or _same(lin.scaled, lin.once, leaf.slice))
    ]
    if whole and len(whole) == len(broken):
        several = len(look.leaves) > len(whole)
        of = f" in {gradient_of(a.path for a in whole)}" if several else ""
        return Match(
            f"{look.name} ignores its cotangent{of}",
            (
                "got is bit for bit the same for 0, 1 and -4 times grad_output, and must scale with it",
            ),
            note=ORDINARY["ones"] + ", where this backward is right",
            help="multiply by the cotangent",
            repaired=times_cotangent(look),
            agreed="got · grad_output",
            new="{grad} * {old}",
            label="the same for every grad_output",
            facts=("unread-cotangent",),
        )
    if not affine(lin):
        return None
    size = float(np.abs(lin.zero).max())
    return Match(
        f"{look.name} has a term that ignores the cotangent",
        (
            f"with grad_output = 0 the gradient is not 0 (up to {size:.3g}), and the rest "
            "is linear in grad_output: one term never meets it",
        ),
        note="a one-hot or constant cotangent can hide this, and so can `y.sum().backward()`",
        help="multiply every term by the cotangent (or by the sum of it that is due)",
        facts=("unread-cotangent",),
    )


def _broken_leaves(look: Look, lin: Linearity) -> list[Leaf]:
    assert lin.zero is not None
    return [a for a in look.leaves if np.any(lin.zero[a.slice] != 0)]


def _same(a: np.ndarray, b: np.ndarray, where: slice) -> bool:
    return bool(np.array_equal(a[where], b[where]))


CARD = Card("dropped-cotangent", Severity.ERROR, 100, _match, layers=(COTANGENT,))
