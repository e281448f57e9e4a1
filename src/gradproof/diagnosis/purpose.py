"""Signs of a backward that is not the derivative on purpose."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import zero_want
from gradproof.diagnosis.look import Look
from gradproof.space import Leaf

DECLARE = (
    'declare it: `gradproof.check(..., allow=("{slug}",))`, `--allow {slug}`, or the '
    "comment `# gradproof: allow[{slug}]` on the class"
)
SURROGATE = (
    "check it as the gradient of what it stands for, "
    "`gradproof.check(..., surrogate={function})`, or "
)
OF_SOME = (
    "check it as the gradient of what it stands for, given as `surrogate=` of "
    "`gradproof.check`, or "
)


def declare(slug: str, instead: str, surrogate: str | None = None) -> str:
    """The plain remedy first; then how to declare a gradient that is meant to be so.

    ``surrogate`` is the function whose gradient it is, as code, "" where that cannot be
    told, and None where it is no function's.
    """
    checked = "" if surrogate is None else OF_SOME
    if surrogate:
        checked = SURROGATE.format(function=surrogate)
    return f"{instead}; if it is meant, {checked}{DECLARE.format(slug=slug)}"


def surrogate(look: Look, body: str) -> str:
    """``body``, which may contain {x}, as a lambda of all inputs; "" where none can be."""
    names = [leaf.path for leaf in look.evidence.domain]
    if not all(name.isidentifier() for name in names) or len(look.wrong_leaves) != 1:
        return ""
    return f"lambda {', '.join(names)}: {body.format(x=look.wrong_leaves[0].path)}"


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
