"""The gradient is off by a constant, as a whole or on a named part."""

from __future__ import annotations

from fractions import Fraction

from gradproof.diagnosis.algebra import Ratio, name_constant, ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.coefficients import coefficients
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import constant_part, extents
from gradproof.diagnosis.values import told_by_value
from gradproof.diagnosis.words import ORDINARY, gradient_of, number
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    found = ratio(look.panels)
    paths = [a.path for a in look.wrong_leaves]
    if found is not None and _is_factor(found) and _is_sure(found, look):
        text, exact = _named(found, look)
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
            new=_undone(text),
        )
    term = coefficients(look)
    if term is not None and term.constant and _is_factor(term.shared):
        text, _ = _named(term.shared, look)
        if term.shared.mid > 0 and not term.shared.holds(2.0):
            return Match(
                f"{look.name} is off by a factor of {text} in one term of "
                f"{gradient_of(paths)}",
                (f"off the diagonal, x̄ / expected = {_value(term.shared)}",),
                note=ORDINARY["training"],
                help=f"divide the term that couples the elements by {text}",
            )
    part = None if told_by_value(look) else constant_part(look)
    if part is None or not _is_factor(part.ratio):
        return None
    text, _ = _named(part.ratio, look)
    return Match(
        f"{look.name} is off by a factor of {text} in {part.where}",
        (f"x̄ / expected = {_value(part.ratio)} in {part.where}; the rest is right",),
        note=ORDINARY["training"],
        help=f"divide {part.where} by {text}",
        repaired=part.repaired(look, 1.0 / part.ratio.mid),
        agreed=f"x̄ with {part.where} divided by {_value(part.ratio)}",
        amplify=1.0 / abs(part.ratio.mid),
    )


def _is_factor(found: Ratio) -> bool:
    narrow = found.high - found.low <= 0.2 * abs(found.mid)
    return narrow and found.mid != 0.0 and not found.holds(1.0)


def _is_sure(found: Ratio, look: Look) -> bool:
    """One number alone has a ratio to anything: then it must be a constant of note."""
    if found.count >= 3:
        return True
    return name_constant(found, extents(look), look.evidence.scalars) is not None


def _named(found: Ratio, look: Look) -> tuple[str, bool]:
    text = name_constant(found, extents(look), look.evidence.scalars)
    return (text, True) if text is not None else (_value(found), False)


def _undone(text: str) -> str:
    """The expression without the factor, where that is a small rational."""
    try:
        back = 1 / Fraction(text)
    except (ValueError, ZeroDivisionError):
        return ""
    if back.denominator == 1:
        return f"{back.numerator} * {{old}}"
    if abs(back.numerator) == 1:
        return f"{{old}} / {back.denominator * back.numerator}"
    return f"{{old}} * ({back.numerator} / {back.denominator})"


def _value(found: Ratio) -> str:
    return number(found.mid)


CARD = Card("wrong-factor", Severity.ERROR, 65, _match)
