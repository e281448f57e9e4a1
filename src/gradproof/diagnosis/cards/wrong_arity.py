"""The wrong number of gradients is returned."""

from __future__ import annotations

from gradproof.diagnosis.card import FORM, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.raised import quoted, slug_of
from gradproof.diagnosis.spans import arguments
from gradproof.diagnosis.words import plural
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    e = look.evidence
    raised = e.failure is not None and slug_of(e.failure) == "wrong-arity"
    if e.form.arity is None and not raised:
        return None
    evidence = () if e.failure is None else (quoted(e.failure),)
    headline = f"{look.name} returns the wrong number of gradients"
    severity = Severity.ERROR
    if e.form.arity is not None:
        gave, due = e.form.arity
        if gave == due:
            return None
        headline = (
            f"{look.name} returns {plural(gave, 'gradient')} for {plural(due, 'input')}"
        )
        # Surplus None are dropped by the engine; nothing else is harmless.
        extra = gave > due and e.failure is None
        severity = Severity.WARNING if extra else Severity.ERROR
    return Match(
        headline,
        evidence,
        note="PyTorch can only compare the count: the order must be that of the arguments",
        help=f"return one value for each argument of forward{_names(look)}, in that order, and None "
        "for those that need no gradient",
        severity=severity,
        facts=("returns",),
    )


def _names(look: Look) -> str:
    names = arguments(look)
    return f" ({', '.join(names)})" if names else ""


CARD = Card("wrong-arity", Severity.ERROR, 80, _match, layers=(FORM,))
