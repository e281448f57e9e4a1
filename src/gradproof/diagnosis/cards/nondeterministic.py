"""Another answer each time."""

from __future__ import annotations

from gradproof.diagnosis.card import PURITY, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.verdict import Severity

# Sums in another order move a result by some ulps; beyond this it is no rounding.
ROUNDING = 64.0


def _match(look: Look) -> Match | None:
    ulps = look.evidence.nondeterministic
    if not ulps:
        return None
    severity = Severity.NOTE if ulps <= ROUNDING else Severity.WARNING
    if look.evidence.wrong and ulps > ROUNDING:
        severity = Severity.ERROR
    return Match(
        f"{look.name} gives another answer each time",
        (f"repeated at the same numbers, x̄ spreads over {ulps:.3g} ulps",),
        note="one call of each test cannot see this",
        help="look for updates that race (use atomic additions, or one writer for each "
        "element), memory that is not initialised, and random draws",
        severity=severity,
    )


CARD = Card("nondeterministic", Severity.WARNING, 10, _match, layers=(PURITY,))
