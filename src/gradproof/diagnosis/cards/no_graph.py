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
            note="a test of values passes, and training just leaves the parameter as it is",
            help="call `.apply`, not `.forward`; take out `.detach()`, `.data`, "
            "`no_grad` and `mark_non_differentiable` on the way",
            facts=("cut",),
        )
    if form.expected_entry and form.entered and form.expected_entry not in form.entered:
        return Match(
            f"{look.name} was never entered: another gradient ran in its place",
            (f"entered: {joined(form.entered)}",),
            note="a fallback for this dtype or device answers instead, and is right",
            help="check in the dtype and on the device that take this path",
        )
    if form.bypassed and not form.entered:
        called = joined(f"`{name}.forward`" for name in form.bypassed)
        return Match(
            f"`{look.short}` runs {called} as plain code, so the backward beside it "
            "never runs",
            ("no custom gradient was entered",),
            note="autograd differentiates the forward itself, and any test of values and "
            "gradients is a test of that",
            help="call `.apply`, not `.forward`",
            alone=True,
        )
    return None


def _detached(look: Look) -> Match | None:
    """Some outputs carry no graph, though they have a derivative."""
    cut = set(look.evidence.form.detached)
    if not cut or look.block is None or not look.block.bad.any():
        return None
    outs = [a for a in look.evidence.codomain if look.block.below(a).bad.any()]
    if not all(a.path in cut for a in outs):
        return None
    paths = joined(a.path for a in outs)
    return Match(
        f"the output {paths} of `{look.short}` carries no graph, and depends on "
        f"{joined(a.path for a in look.wrong_leaves)}",
        (f"{paths} does not require grad; its derivative is not 0",),
        note="a loss that uses the other outputs only is right",
        help=f"take {paths} out of `ctx.mark_non_differentiable`, and any `.detach()` "
        "or `no_grad` from its way; or declare it: allow no-graph",
    )


CARD = Card("no-graph", Severity.ERROR, 90, _match, layers=(FORM,))
PARTLY = Card("no-graph", Severity.ERROR, 93, _detached)
