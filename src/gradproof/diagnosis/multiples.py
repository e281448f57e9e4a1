"""Factors of one term, and factors that take turns."""

from __future__ import annotations

from gradproof.diagnosis.card import Match
from gradproof.diagnosis.coefficients import coefficients
from gradproof.diagnosis.constants import is_factor, named
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import turns
from gradproof.diagnosis.values import told_by_value
from gradproof.diagnosis.words import ORDINARY, gradient_of, number


def of_term(look: Look) -> Match | None:
    """One constant off the diagonal: the term that couples the elements."""
    term = coefficients(look)
    if term is None or not term.constant or not is_factor(term.shared):
        return None
    if term.shared.mid <= 0 or term.shared.holds(2.0):
        return None
    text, _ = named(term.shared, look)
    return Match(
        f"{look.name} is off by a factor of {text} in one term of "
        f"{gradient_of(a.path for a in look.wrong_leaves)}",
        (f"off the diagonal, got / expected = {number(term.shared.mid)}",),
        note=ORDINARY["training"],
        help=f"divide the term that couples the elements by {text}",
    )


def in_turns(look: Look) -> Match | None:
    """Even and odd indices are off by one constant each."""
    found = [] if told_by_value(look) else turns(look)
    if not found:
        return None
    paths = gradient_of(a.path for a in look.wrong_leaves)
    return Match(
        f"{look.name} is off by factors that take turns in {paths}",
        tuple(f"got / expected = {number(r.mid)} at {where}" for where, r in found),
        note="the mean of the two may be 1, so that norms and sums look right",
        help="look for what alternates: two interleaved halves, a checkerboard, real and "
        "imaginary parts",
    )
