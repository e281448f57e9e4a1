"""Second order is lost in silence."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.elsewhere import failing, numbers, told
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.orders import detached
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    settings = [e for e in failing(look, "order") if detached(look, e)]
    if not settings:
        return None
    cuts = tuple(f"the graph is cut at {c}" for e in settings if e.evidence
                 for c in e.evidence.form.cuts)  # fmt: skip
    return Match(
        f"{look.name} loses the second derivative and raises nothing",
        (*told(settings), *cuts),
        note="the gradient itself is right; a gradient penalty or a Hessian is not",
        help="save inputs and outputs only, and compute the rest again in backward; or "
        "mark backward `@once_differentiable`, so that second order raises",
        worst=numbers(settings[0]),
        facts=("context", "save"),
    )


CARD = Card(
    "detached-second-derivative", Severity.ERROR, 34, _match, layers=(ELSEWHERE,)
)
