"""Wrong only at some values: ties, zeros, negatives, beyond a threshold."""

from __future__ import annotations

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.constants import is_factor
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import known_columns, wrong_columns
from gradproof.diagnosis.values import told_by_value
from gradproof.diagnosis.words import number, plural
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    wrong = wrong_columns(look)
    when = told_by_value(look)
    if not when:
        return None
    right = int((known_columns(look) & ~wrong).sum())
    leaf = look.wrong_leaves[0]
    found = ratio(look.panels, [p.bad for p in look.panels])
    known = found is not None and is_factor(found)
    times = f", got / expected = {number(found.mid)}" if found and known else ""
    fix = f", {number(1 / found.mid)} times what it returns" if found and known else ""
    return Match(
        f"{look.name} is wrong for {leaf.path} where {when}, and right elsewhere",
        (
            f"where {when}: {plural(int(wrong.sum()), 'element')}, all wrong{times}; "
            f"elsewhere: {plural(right, 'element')}, all right",
        ),
        note="a test whose values do not go there passes",
        help=f"give the branch {when} the derivative of what the forward does there{fix}",
    )


CARD = Card("wrong-at-value", Severity.ERROR, 63, _match)
