"""The backward raises when asked in the plainest way."""

from __future__ import annotations

from gradproof.diagnosis.card import FORM, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.raised import quoted, slug_of
from gradproof.diagnosis.spans import unsaved
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    failure = look.evidence.failure
    if failure is None or slug_of(failure) != "backward-raises":
        return None
    where = f" at line {failure.line}" if failure.line else ""
    return Match(
        f"{look.name} raises {failure.kind}{where}",
        (quoted(failure),),
        note="a forward that is only ever evaluated does not run its backward",
        help=_help(look),
        failure=failure,
    )


def _help(look: Look) -> str:
    missing = unsaved(look)
    if missing:
        names = ", ".join(missing)
        return (
            f"save in forward what backward unpacks: `ctx.save_for_backward({names})`"
        )
    if look.evidence.source.kind == "pair":
        return "mend that line; to stop there, call it by hand on these inputs"
    return (
        "mend that line; to stop there, call `torch.autograd.grad` on inputs like these"
    )


CARD = Card("backward-raises", Severity.ERROR, 5, _match, layers=(FORM,))
