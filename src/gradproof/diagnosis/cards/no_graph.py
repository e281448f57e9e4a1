"""There is no rule here: nothing connects the output to the input."""

from __future__ import annotations

from gradproof.diagnosis.card import FORM, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.raised import quoted, slug_of
from gradproof.diagnosis.words import joined
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    form, failure = look.evidence.form, look.evidence.failure
    raised = failure is not None and slug_of(failure) == "no-graph"
    if not form.graph or raised:
        cuts = tuple(f"the graph is cut at {cut}" for cut in form.cuts)
        said = (quoted(failure),) if raised and failure is not None else ()
        return Match(
            f"the output of `{look.short}` is not connected to a graph, so its gradient "
            "never runs",
            (*(said or ("no output requires grad, though an input does",)), *cuts),
            note="the forward is right, and a frozen parameter looks just the same",
            help="call `.apply`, not `.forward`; take out `.detach()`, `.data`, "
            "`no_grad` and `mark_non_differentiable` on the way",
        )
    if form.expected_entry and form.entered and form.expected_entry not in form.entered:
        return Match(
            f"{look.name} was never entered: another gradient ran in its place",
            (f"entered: {joined(form.entered)}",),
            note="a fallback for this dtype or device answers instead, and is right",
            help="check in the dtype and on the device that take this path",
        )
    return None


CARD = Card("no-graph", Severity.ERROR, 90, _match, layers=(FORM,))
