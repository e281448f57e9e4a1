"""A factor of the chain rule that depends on the input is missing."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.factors import Factor, computed, factor
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import gradient_of
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    found = factor(look)
    if found is None:
        return None
    paths = [a.path for a in look.wrong_leaves]
    known = computed(look) if found.text else None
    if known is not None and known.due is not None and known.due.cost < found.cost:
        return _another(look, found, known.given.text, known.due.text)
    if found.inverse:
        return Match(
            f"{look.name} multiplies {gradient_of(paths)} by {found.text}, which is a "
            "factor too many",
            found.facts,
            note="where that factor is 1 the gradient is right",
            help=f"leave out the factor {found.text}",
            repaired=found.repaired,
            agreed="x̄ without it",
            amplify=found.amplify,
        )
    return Match(
        f"{look.name} lacks a factor in {gradient_of(paths)}{_which(found)}",
        found.facts,
        note="where that factor is 1 the gradient is right",
        help=f"multiply by {found.text}" if found.text else found.help,
        repaired=found.repaired,
        agreed=f"x̄ times {found.text or 'the factor'}",
        new=f"{{old}} * {found.text}" if found.text else "",
        amplify=found.amplify,
    )


def _another(look: Look, found: Factor, given: str, due: str) -> Match:
    """Given and due are both plainer than their ratio: say both."""
    of = gradient_of(a.path for a in look.wrong_leaves)
    return Match(
        f"{look.name} computes grad_output · {given} for {of}, and grad_output · {due} "
        "is due",
        found.facts,
        note="where the two coincide this passes",
        help=f"return grad_output · {due}",
        repaired=found.repaired,
        agreed=f"grad_output · {due}",
        new=f"{{grad}} * {due}",
        amplify=found.amplify,
    )


def _which(found: Factor) -> str:
    return f": {found.text}" if found.text else ""


CARD = Card("missing-factor", Severity.ERROR, 50, _match)
