"""A region of x̄ is left zero or uninitialised."""

from __future__ import annotations

from gradproof.diagnosis.algebra import affine, zero_got, zero_want
from gradproof.diagnosis.card import FIRST, PURITY, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import name_part, silent_columns, wrong_columns
from gradproof.diagnosis.slices import call
from gradproof.diagnosis.words import plural
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if look.layer == PURITY:
        return _garbage(look)
    if len(look.wrong_leaves) != 1:
        return None
    leaf = look.wrong_leaves[0]
    wrong = wrong_columns(look)
    if not all(zero_got(p)[:, wrong[p.cols]].all() for p in look.panels):
        return None
    found = name_part(leaf, wrong, silent_columns(look))
    if found is None or found.kind in ("all", "triangle"):
        return None
    count = int(wrong.sum())
    where = call(leaf.path, found)
    return Match(
        f"{look.name} leaves the gradient of {where} at zero",
        (
            f"the gradient is 0 in all of {where} ({plural(count, 'element')}) and right elsewhere",
        ),
        note="a size that fills whole blocks, or one row, hides this",
        help=f"write the gradient of {where} too: let the loop or the grid cover the "
        "whole extent, the remainder after the last whole block too",
        facts=("fills",),
    )


def _garbage(look: Look) -> Match | None:
    """What stands in a named part has nothing to do with ȳ; the rest is right."""
    lin = look.linearity
    if lin is None or lin.zero is None or look.block is None:
        return None
    wild = lin.zero != 0
    touched = [a for a in look.leaves if wild[a.slice].any()]
    if len(touched) != 1 or wild[touched[0].slice].all():
        return None
    leaf = touched[0]
    found = name_part(leaf, wild)
    p = look.block.part(None, wild[look.block.cols])
    rest = look.block.part(None, ~wild[look.block.cols])
    if found is None or found.kind in ("all", "triangle") or rest.bad.any():
        return None
    if affine(lin, wild) and not zero_want(p).all():
        return None
    where = call(leaf.path, found)
    return Match(
        f"{look.name} leaves the gradient of {where} uninitialised",
        (f"for grad_output = 0 the gradient is not 0 in {where}, and nowhere else",),
        note="fresh memory is often zero, so the first runs look right",
        help=f"allocate the gradient with zeros, or write {where} too",
        facts=("raw-memory",),
    )


CARD = Card("unwritten-region", Severity.ERROR, 70, _match, layers=(PURITY, FIRST))
