"""A region of x̄ is left zero or uninitialised."""

from __future__ import annotations

from gradproof.diagnosis.algebra import zero_got
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import name_part, wrong_columns
from gradproof.diagnosis.slices import call
from gradproof.diagnosis.words import plural
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if len(look.wrong_leaves) != 1:
        return None
    leaf = look.wrong_leaves[0]
    wrong = wrong_columns(look)
    if not all(zero_got(p)[:, wrong[p.cols]].all() for p in look.panels):
        return None
    found = name_part(leaf, wrong)
    if found is None or found.kind in ("all", "triangle"):
        return None
    count = int(wrong.sum())
    where = call(leaf.path, found)
    return Match(
        f"{look.name} leaves the gradient of {where} at zero",
        (f"x̄ is 0 in all of {where} ({plural(count, 'element')}) and right elsewhere",),
        note="a size that fills whole blocks, or one row, hides this",
        help=f"write the gradient of {where} too: let the loop or the grid cover the "
        "whole extent, with a mask at its end",
    )


CARD = Card("unwritten-region", Severity.ERROR, 70, _match)
