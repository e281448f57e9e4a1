"""A path is counted twice, or one is added that is not there."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.constancy import constant, wanted
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.terms import difference, multiplied, told
from gradproof.diagnosis.words import gradient_of
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    paths = [a.path for a in look.wrong_leaves]
    times = multiplied(look)
    if times:
        return Match(
            f"{look.name} counts some paths more than once in {gradient_of(paths)}",
            (times,),
            note="with one path (one step, one write) this is right",
            help="add each contribution once: do not feed the running gradient back",
        )
    found = difference(look) or constant(look)
    if found is None or not found.extra:
        return None
    which = told(look, found)
    return Match(
        f"{look.name} has a term too many in {gradient_of(paths)}{f': {which}' if which else ''}",
        found.facts,
        note="the other terms are right, and often the larger ones",
        help=f"take out the term {which}" if which else "count each path once",
        repaired=found.repaired,
        agreed="got without the term",
        new=""
        if found.code or not found.text
        else f"{{old}} - {{grad}} * {found.text}",
    )


CARD = Card("extra-term", Severity.ERROR, 41, _match, wanted)
