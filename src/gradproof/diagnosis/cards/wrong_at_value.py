"""Wrong only at some values: ties, zeros, negatives, beyond a threshold."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import known_columns, wrong_columns
from gradproof.diagnosis.values import told_by_value
from gradproof.diagnosis.words import plural
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    wrong = wrong_columns(look)
    when = told_by_value(look)
    if not when:
        return None
    right = int((known_columns(look) & ~wrong).sum())
    leaf = look.wrong_leaves[0]
    return Match(
        f"{look.name} is wrong for {leaf.path} where {when}, and right elsewhere",
        (
            f"{plural(int(wrong.sum()), 'element')} with {when} wrong, "
            f"{plural(right, 'element')} without it right",
        ),
        note="a test whose values do not go there passes",
        help=f"give the branch {when} the derivative of what the forward does there",
    )


CARD = Card("wrong-at-value", Severity.ERROR, 63, _match)
