"""The forward depends on what was called before: a difference of it means little."""

from __future__ import annotations

from gradproof.diagnosis.card import PURITY, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if not look.evidence.stateful:
        return None
    return Match(
        f"the forward of `{look.short}` depends on what was called before",
        (f"f(x), f(x'), f(x): {look.evidence.stateful}",),
        note="a finite difference of such a function can be precise and wrong",
        help="pass reset= with what clears the state, or start each forward afresh",
        facts=("forward",),
        quiets=True,
    )


CARD = Card("stateful-forward", Severity.WARNING, 50, _match, layers=(PURITY,))
