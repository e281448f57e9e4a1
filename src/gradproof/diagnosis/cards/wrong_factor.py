"""The gradient is off by a constant, as a whole or on a named part."""

from __future__ import annotations

from gradproof.diagnosis.algebra import Ratio, ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.coefficients import coefficients
from gradproof.diagnosis.constants import is_factor, is_sure, named, undone
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import constant_part, in_turns
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
    return _term(look) or _part(look) or _turns(look)


def _whole(look: Look, found: Ratio) -> Match:
    text, exact = named(found, look)
    paths = [a.path for a in look.wrong_leaves]
    return Match(
        f"{look.name} returns {text} times {gradient_of(paths)}",
        (f"x̄ / expected = {_value(found)} in {found.count} of {found.count} entries",),
        note=ORDINARY["tolerance"]
        if abs(found.mid - 1) < 1e-2
        else ORDINARY["training"],
        help=f"divide by {text}" if exact else f"divide by {_value(found)}",
        repaired=tuple(p.got / found.mid for p in look.panels),
        agreed=f"x̄ / {_value(found)}",
        amplify=1.0 / abs(found.mid),
        new=undone(text),
    )


def _term(look: Look) -> Match | None:
    term = coefficients(look)
    if term is None or not term.constant or not is_factor(term.shared):
        return None
    if term.shared.mid <= 0 or term.shared.holds(2.0):
        return None
    text, _ = named(term.shared, look)
    return Match(
        f"{look.name} is off by a factor of {text} in one term of "
        f"{gradient_of(a.path for a in look.wrong_leaves)}",
        (f"off the diagonal, x̄ / expected = {_value(term.shared)}",),
        note=ORDINARY["training"],
        help=f"divide the term that couples the elements by {text}",
    )


def _part(look: Look) -> Match | None:
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


def _turns(look: Look) -> Match | None:
    found = [] if told_by_value(look) else in_turns(look)
    if not found:
        return None
    paths = gradient_of(a.path for a in look.wrong_leaves)
    return Match(
        f"{look.name} is off by factors that take turns in {paths}",
        tuple(f"x̄ / expected = {_value(r)} at {where}" for where, r in found),
        note="the mean of the two may be 1, so that norms and sums look right",
        help="look for what alternates: two interleaved halves, a checkerboard, real and "
        "imaginary parts",
    )


def _value(found: Ratio) -> str:
    return number(found.mid)


CARD = Card("wrong-factor", Severity.ERROR, 65, _match, wanted)
