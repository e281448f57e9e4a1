"""The wrong number of gradients is returned."""

from __future__ import annotations

from gradproof.diagnosis.card import FORM, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.raised import quoted, slug_of
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
        note="only the count is compared, so a gradient may land on the wrong input",
        help="return one value for each argument of forward, None where there is none",
        severity=severity,
    )


CARD = Card("wrong-arity", Severity.ERROR, 80, _match, layers=(FORM,))
