"""Another answer each time."""

from __future__ import annotations

from gradproof.diagnosis.card import PURITY, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import number
from gradproof.verdict import Severity

# Sums in another order move a result by some roundings; this many are none.
ROUNDING = 64.0


def _match(look: Look) -> Match | None:
    spread = look.evidence.nondeterministic
    if not spread:
        return None
    severity = Severity.NOTE if spread <= ROUNDING else Severity.WARNING
    if look.evidence.wrong and spread > ROUNDING:
        severity = Severity.ERROR
    odd, calls = look.evidence.odd_calls
    counted = (f"{odd} of {calls} repeats differ from the first call",) if calls else ()
    return Match(
        f"{look.name} gives another answer each time",
        (f"repeated at the same numbers, the gradient spreads over {number(spread)} times its "
         "rounding", *counted),
        note="one call of each test cannot see this",
        help="look for updates that race (use atomic additions, or one writer for each "
        "element), memory that is not initialised, and random draws",
        severity=severity,
    )  # fmt: skip


CARD = Card("nondeterministic", Severity.WARNING, 10, _match, layers=(PURITY,))
