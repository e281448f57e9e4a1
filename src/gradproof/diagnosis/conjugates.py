"""Which conjugate was forgotten: of the cotangent, of the result, of a factor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.diagnosis.algebra import planted
from gradproof.diagnosis.look import Look, Panel
from gradproof.space import Leaf, Matrix, Space

KINDS: tuple[tuple[bool, bool], ...] = ((True, True), (False, True), (True, False))


def conjugated(
    domain: Space, codomain: Space, into: bool, outof: bool  # noqa: FBT001
) -> Callable[[Panel], Matrix]:  # fmt: skip
    """What a panel would hold with these conjugates forgotten."""

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


def agree(look: Look, leaf: Leaf, flip: Callable[[Panel], Matrix]) -> bool:
    """Whether the rule gave just that for one input."""
    assert look.block is not None
    panel = look.block.within(leaf)
    return bool(planted(panel, flip(panel)).all())
