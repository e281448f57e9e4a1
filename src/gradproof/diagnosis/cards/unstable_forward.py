"""The forward itself overflows where the function is finite."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import number
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    seen = look.evidence.overflow
    if seen is None:
        return None
    x, value, told = seen
    path, gave = told.split(": ", 1)
    return Match(
        f"the forward of `{look.short}` overflows where the function is finite",
        (
            f"just beyond {path} = {number(x)}, where the value is about "
            f"{number(value)}, the forward gives {gave}",
        ),
        note="inputs of ordinary size hide this",
        facts=("forward",),
        help="rewrite it so that no intermediate is larger than the result (subtract the "
        "maximum before exp, use logaddexp, logsumexp, hypot)",
    )


CARD = Card("unstable-forward", Severity.WARNING, 15, _match, layers=(ELSEWHERE,))
