"""Gradient where the function does not depend on the input."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.leaks import (
    dead,
    few_entries,
    idle,
    inverted,
    only_leaks,
    place,
)
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import wrong_columns
from gradproof.diagnosis.words import joined
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if not look.wrong_leaves:
        return None
    unused = idle(look)
    if unused:
        names = joined(a.path for a in unused)
        return Match(
            f"{look.name} gives a gradient to {names}, on which the output does not "
            "depend here",
            (f"moving {names} changes no output, yet its gradient is not 0",),
            note="a test at values where that path is active is right",
            help="multiply the path by the condition that the forward takes",
        )
    return _region(look) if only_leaks(look) else _inverted(look)


def _region(look: Look) -> Match | None:
    if not dead(look) and not few_entries(look):
        return None
    paths = joined(a.path for a in look.wrong_leaves)
    count = int(wrong_columns(look).sum())
    fact = f"{count} elements have a gradient and a derivative of exactly 0"
    if not dead(look) and look.block is not None:
        fact = (
            f"{int(look.block.bad.sum())} entries of the Jacobian are exactly 0, and not "
            "0 in what the backward implies"
        )
    return Match(
        f"{look.name} gives {paths} a gradient {place(look)}, where the output does not "
        "depend on it",
        (fact,),
        note="inputs that stay inside the range, or a mask of ones, hide this",
        help=f"make it 0 {place(look)}: multiply by the mask (or the condition) that the forward "
        "applied, saved or computed again",
    )


def _inverted(look: Look) -> Match | None:
    found = inverted(look)
    if found is None:
        return None
    when, leaked, lost = found
    paths = joined(a.path for a in look.wrong_leaves)
    return Match(
        f"{look.name} gives {paths} a gradient where {when}, and it is due elsewhere",
        (f"{leaked} entries leak, {lost} entries are lacking",),
        note="the shape and the size of the gradient look right",
        help="invert the condition: it selects what the forward leaves out",
    )


CARD = Card("leaked-region", Severity.ERROR, 66, _match)
