"""The gradient is off by a constant, as a whole or on a named part."""

from __future__ import annotations

from gradproof.diagnosis.algebra import Ratio, ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.coefficients import coefficients
from gradproof.diagnosis.constants import is_factor, is_sure, named, undone
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import constant_part
from gradproof.diagnosis.values import told_by_value
from gradproof.diagnosis.varying import varies, wanted
from gradproof.diagnosis.words import ORDINARY, gradient_of, number
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    found = ratio(look.panels)
    paths = [a.path for a in look.wrong_leaves]
    if found is not None and is_factor(found) and varies(look, found):
        return None
    if found is not None and is_factor(found) and is_sure(found, look):
        text, exact = named(found, look)
        return Match(
            f"{look.name} returns {text} times {gradient_of(paths)}",
            (
                f"x̄ / expected = {_value(found)} in {found.count} of {found.count} entries",
            ),
            note=ORDINARY["tolerance"]
            if abs(found.mid - 1) < 1e-2
            else ORDINARY["training"],
            help=f"divide by {text}" if exact else f"divide by {_value(found)}",
            repaired=tuple(p.got / found.mid for p in look.panels),
            agreed=f"x̄ / {_value(found)}",
            amplify=1.0 / abs(found.mid),
            new=undone(text),
        )
    term = coefficients(look)
    if term is not None and term.constant and is_factor(term.shared):
        text, _ = named(term.shared, look)
        if term.shared.mid > 0 and not term.shared.holds(2.0):
            return Match(
                f"{look.name} is off by a factor of {text} in one term of "
                f"{gradient_of(paths)}",
                (f"off the diagonal, x̄ / expected = {_value(term.shared)}",),
                note=ORDINARY["training"],
                help=f"divide the term that couples the elements by {text}",
            )
    part = None if told_by_value(look) else constant_part(look)
    if part is None or not is_factor(part.ratio):
        return None
    text, _ = named(part.ratio, look)
    return Match(
        f"{look.name} is off by a factor of {text} in {part.where}",
        (f"x̄ / expected = {_value(part.ratio)} in {part.where}; the rest is right",),
        note=ORDINARY["training"],
        help=f"divide {part.where} by {text}",
        repaired=part.repaired(look, 1.0 / part.ratio.mid),
        agreed=f"x̄ with {part.where} divided by {_value(part.ratio)}",
        amplify=1.0 / abs(part.ratio.mid),
    )


def _value(found: Ratio) -> str:
    return number(found.mid)


CARD = Card("wrong-factor", Severity.ERROR, 65, _match, wanted)
