"""An input's gradient has the opposite sign, as a whole or on a named part."""

from __future__ import annotations

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.coefficients import coefficients
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import constant_part
from gradproof.diagnosis.values import told_by_value
from gradproof.diagnosis.words import ORDINARY, gradient_of
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    found = ratio(look.panels)
    paths = [a.path for a in look.wrong_leaves]
    if (
        found is not None
        and found.holds(-1.0)
        and found.low > -1.5
        and found.high < -0.5
    ):
        return Match(
            f"{look.name} returns {gradient_of(paths)} with the wrong sign",
            (f"got / expected = -1 in {found.count} of {found.count} entries",),
            note=ORDINARY["shape"],
            help="negate it",
            repaired=tuple(-p.got for p in look.panels),
            agreed="-got",
            new="-({old})",
        )
    term = coefficients(look)
    if term is not None and term.constant and term.shared.holds(-1.0):
        return Match(
            f"{look.name} has the wrong sign in one term of {gradient_of(paths)}",
            (
                "off the diagonal, got / expected = -1; on it, that term is hidden by others",
            ),
            note=ORDINARY["shape"],
            help="negate the term that couples the elements (a sum, a mean)",
        )
    part = None if told_by_value(look) else constant_part(look)
    if part is None or not part.ratio.holds(-1.0) or not -1.5 < part.ratio.mid < -0.5:
        return None
    return Match(
        f"{look.name} has the wrong sign in {part.where}",
        (f"got / expected = -1 in {part.where}; the other entries are right",),
        note=ORDINARY["shape"],
        help=f"negate {part.where}",
        repaired=part.repaired(look, -1.0),
        agreed=f"got with {part.where} negated",
    )


CARD = Card("wrong-sign", Severity.ERROR, 89, _match)
