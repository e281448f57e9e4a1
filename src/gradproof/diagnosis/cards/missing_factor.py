"""A factor of the chain rule that depends on the input is missing."""

from __future__ import annotations

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.constants import is_factor
from gradproof.diagnosis.factored import another, scalar, which
from gradproof.diagnosis.factors import computed, factor, of_cotangent
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.varying import varies
from gradproof.diagnosis.words import gradient_of
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    paths = [a.path for a in look.wrong_leaves]
    here = ratio(look.panels)
    if here is not None and is_factor(here) and varies(look, here):
        return scalar(look, here)
    found = factor(look)
    if found is None:
        return None
    known = computed(look) if found.text else None
    if known is not None and known.due is not None and known.due.cost < found.cost:
        return another(look, found, known.given.text, known.due.text)
    if found.inverse:
        return Match(
            f"{look.name} multiplies {gradient_of(paths)} by {found.text}, which is a "
            "factor too many",
            found.facts,
            note="where that factor is 1 the gradient is right",
            help=f"leave out the factor {found.text}",
            repaired=found.repaired,
            agreed="got without it",
            amplify=found.amplify,
        )
    return Match(
        f"{look.name} lacks a factor in {gradient_of(paths)}{which(found)}",
        found.facts,
        note="where that factor is 1 the gradient is right",
        help=f"multiply by {found.text}" if found.text else found.help,
        repaired=found.repaired,
        agreed=f"got times {found.text or 'the factor'}",
        new=f"{{old}} * {found.text}" if found.text else "",
        amplify=found.amplify,
    )


def _last_step(look: Look) -> Match | None:
    fact = of_cotangent(look)
    if not fact:
        return None
    paths = [a.path for a in look.wrong_leaves]
    return Match(
        f"{look.name} lacks the derivative of the forward's last step in "
        f"{gradient_of(paths)}",
        (fact, "one such matrix serves every input"),
        note="where that step changes little, this nearly passes",
        help="send grad_output through the last step of the forward first: a linear "
        "solve, a normalisation, an activation",
    )


LATER = Card("missing-factor", Severity.ERROR, 39, _last_step)
CARD = Card("missing-factor", Severity.ERROR, 50, _match)
