"""A term is missing: a path through a statistic, the product rule, the diagonal."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.constancy import constant, wanted
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.terms import Term, difference
from gradproof.diagnosis.words import gradient_of
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    found = difference(look) or constant(look)
    if found is None or found.extra:
        return None
    paths = [a.path for a in look.wrong_leaves]
    return Match(
        f"{look.name} lacks a term in {gradient_of(paths)}{_which(found)}",
        found.facts,
        note="the remaining terms are right, and often the larger ones",
        help=f"add {found.text}" if found.text else "differentiate every path from the "
        "input to the output: statistics, normalisers and products too",
        repaired=found.repaired,
        agreed="got with the term added",
        new=f"{{old}} + {{grad}} * {found.text}" if found.text else "",
    )  # fmt: skip


def _which(found: Term) -> str:
    return f": {found.text}" if found.text else ""


CARD = Card("missing-term", Severity.ERROR, 40, _match, wanted)
