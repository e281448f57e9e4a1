"""The gradient is off by a constant, as a whole or on a named part."""

from __future__ import annotations

from gradproof.diagnosis.algebra import Ratio, ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.constants import (
    is_factor,
    is_sure,
    miscounted,
    named,
    undone,
)
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.multiples import in_turns, of_term
from gradproof.diagnosis.parts import constant_part
from gradproof.diagnosis.values import told_by_value
from gradproof.diagnosis.varying import varies, wanted
from gradproof.diagnosis.words import ORDINARY, gradient_of, number
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    found = ratio(look.panels)
    if found is not None and is_factor(found) and varies(look, found):
        return None
    if found is not None and is_factor(found) and is_sure(found, look):
        return _whole(look, found)
    return of_term(look) or _part(look) or in_turns(look)


def _whole(look: Look, found: Ratio) -> Match:
    text, exact = named(found, look)
    paths = [a.path for a in look.wrong_leaves]
    return Match(
        f"{look.name} returns {text} times {gradient_of(paths)}",
        (
            f"got / expected = {number(found.mid)} in {found.count} of {found.count} entries",
        ),
        note=ORDINARY["tolerance"]
        if abs(found.mid - 1) < 1e-2
        else ORDINARY["training"],
        help=miscounted(found, look)
        or _remedy(found, text if exact else number(found.mid)),
        repaired=tuple(p.got / found.mid for p in look.panels),
        agreed=f"got / {number(found.mid)}",
        amplify=1.0 / abs(found.mid),
        new=undone(text),
    )


def _remedy(found: Ratio, text: str) -> str:
    """What to multiply or divide by, whichever is a whole number."""
    back = 1.0 / found.mid
    whole = abs(back) > 1 and found.holds(1.0 / round(back))
    return f"multiply by {round(back)}" if whole else f"divide by {text}"


def _part(look: Look) -> Match | None:
    part = None if told_by_value(look) else constant_part(look)
    if part is None or not is_factor(part.ratio):
        return None
    text, _ = named(part.ratio, look)
    return Match(
        f"{look.name} is off by a factor of {text} in {part.where}",
        (
            f"got / expected = {number(part.ratio.mid)} in {part.where}; the rest is right",
        ),
        note=ORDINARY["training"],
        help=f"divide {part.where} by {text}"
        + (f": {counted}" if (counted := miscounted(part.ratio, look)) else ""),
        repaired=part.repaired(look, 1.0 / part.ratio.mid),
        agreed=f"got with {part.where} divided by {number(part.ratio.mid)}",
        amplify=1.0 / abs(part.ratio.mid),
    )


CARD = Card("wrong-factor", Severity.ERROR, 65, _match, wanted)
