"""Signs of a backward that is not the derivative on purpose."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import zero_want
from gradproof.diagnosis.look import Look
from gradproof.space import Leaf

DECLARE = (
    'if this is meant, declare it: allow=("{slug}",), or better surrogate= with the '
    "function that the backward is meant to differentiate"
)


def declare(slug: str) -> str:
    """How to declare a gradient that is not the derivative on purpose."""
    return DECLARE.format(slug=slug)


def identity(look: Look) -> bool:
    """Whether the forward hands its (only wrong) input through unchanged."""
    e = look.evidence
    if len(e.codomain) != 1 or not look.leaves:
        return False
    leaf, out = look.leaves[0], e.codomain.leaves[0]
    if leaf.size != out.size:
        return False
    gap = np.abs(look.value_of(leaf) - look.output_of(out))
    return bool(np.all(gap <= 4 * e.codomain.unit * np.abs(look.value_of(leaf))))


def idle(look: Look, leaf: Leaf) -> bool:
    """Whether no output depends on the leaf, anywhere that was measured."""
    return bool(look.panels) and all(
        zero_want(p.within(leaf)).all() for p in look.panels
    )


def measured(look: Look, leaf: Leaf) -> bool:
    """Whether anything was measured of the leaf."""
    return any(p.within(leaf).ok.any() for p in look.panels)


def still(look: Look) -> bool:
    """Whether the whole function is constant around the point: steps, signs, rounding."""
    every = Look.at(look.evidence)
    return all(idle(every, a) for a in every.leaves if measured(every, a))
