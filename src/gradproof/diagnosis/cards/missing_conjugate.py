"""A conjugate is forgotten."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.diagnosis.algebra import planted
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look, Panel
from gradproof.space import Leaf, Matrix, Space
from gradproof.verdict import Severity

_KINDS: tuple[tuple[bool, bool], ...] = ((True, True), (False, True), (True, False))


def _match(look: Look) -> Match | None:
    leaves = look.wrong_leaves
    outs = [a for a in look.evidence.codomain if a.is_complex]
    if not leaves or look.block is None:
        return None
    if not (any(a.is_complex for a in leaves) or outs):
        return None
    for into, outof in _KINDS:
        flip = _conjugated(look.evidence.domain, look.evidence.codomain, into, outof)
        if all(_agree(look, leaf, flip) for leaf in leaves):
            return _say(look, into, outof, flip)
    return None


def _say(look: Look, into: bool, outof: bool, flip: Callable[[Panel], Matrix]) -> Match:  # noqa: FBT001
    what = "a conjugate" if into and outof else "the conjugate of the result"
    if outof and not into:
        what = "the conjugate of the cotangent"
    assert look.block is not None
    return Match(
        f"{look.name} forgets {what} for {', '.join(a.path for a in look.wrong_leaves)}",
        (
            "x̄ agrees with the oracle after complex conjugation; for real numbers it is right",
        ),
        note="real inputs hide this",
        help="conjugate the factors that multiply the cotangent: "
        "x̄ = conj(dy/dx) · grad_output",
    )


def _conjugated(
    domain: Space, codomain: Space, into: bool, outof: bool  # noqa: FBT001
) -> Callable[[Panel], Matrix]:  # fmt: skip
    def signs(space: Space) -> Matrix:
        out = np.ones(space.size)
        for leaf in space:
            if leaf.is_complex:
                out[leaf.start + 1 : leaf.start + leaf.size : 2] = -1.0
        return out[None, :]

    left, right = signs(codomain)[0], signs(domain)[0]

    def flip(panel: Panel) -> Matrix:
        assert panel.rows is not None
        out = panel.want
        if into:
            out = out * right[panel.cols][None, :]
        if outof:
            out = out * left[panel.rows][:, None]
        return out

    return flip


def _agree(look: Look, leaf: Leaf, flip: Callable[[Panel], Matrix]) -> bool:
    assert look.block is not None
    panel = look.block.within(leaf)
    return bool(planted(panel, flip(panel)).all())


CARD = Card("missing-conjugate", Severity.ERROR, 86, _match)
