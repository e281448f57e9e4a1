"""A term is missing: a path through a statistic, the product rule, the diagonal."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.constancy import constant, wanted
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.terms import added, difference, told
from gradproof.diagnosis.words import gradient_of
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    found = difference(look) or constant(look)
    if found is None or found.extra:
        return None
    which = told(look, found)
    paths = [a.path for a in look.wrong_leaves]
    return Match(
        f"{look.name} lacks a term in {gradient_of(paths)}{f': {which}' if which else ''}",
        found.facts,
        note="the remaining terms are right, and often the larger ones",
        help=f"add {which}" if which else "differentiate every path from the "
        "input to the output: statistics, normalisers and products too",
        repaired=found.repaired,
        agreed="got with the term added",
        new=added(found),
    )  # fmt: skip


CARD = Card("missing-term", Severity.ERROR, 40, _match, wanted)
