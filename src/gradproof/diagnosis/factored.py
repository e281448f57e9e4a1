"""What is said of a factor that is missing, or of one too many."""

from __future__ import annotations

from gradproof.diagnosis.algebra import Ratio
from gradproof.diagnosis.card import Match
from gradproof.diagnosis.factors import Factor
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.varying import elsewhere, named
from gradproof.diagnosis.words import gradient_of, number


def scalar(look: Look, here: Ratio) -> Match:
    """One number for all entries, and another one at another input."""
    text = named(look, here)
    there = elsewhere(look)
    far = f", and {number(there.mid)} at a nearby input" if there else ""
    return Match(
        f"{look.name} lacks a factor in {gradient_of(a.path for a in look.wrong_leaves)}"
        + (f": {text}" if text else " that depends on the input"),
        (f"got / expected = {number(here.mid)} in all entries here{far}",),
        note="where that factor is 1 the gradient is right",
        help=f"multiply by {text}" if text else "apply every factor of the chain rule",
        repaired=tuple(p.got / here.mid for p in look.panels) if text else None,
        agreed=f"got times {text}",
        new=f"{{old}} * {text}" if text else "",
        amplify=1 / abs(here.mid),
    )


def another(look: Look, found: Factor, given: str, due: str) -> Match:
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


def which(found: Factor) -> str:
    """The factor, where it has a formula, as it stands at the end of a headline."""
    return f": {found.text}" if found.text else ""
