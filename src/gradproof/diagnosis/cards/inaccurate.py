"""Right in form, but with fewer digits than its dtype explains."""

from __future__ import annotations

from gradproof.diagnosis.card import ELSEWHERE, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.verdict import Severity, Verdict

# Deviation from the same rule in a wider dtype, in units of the rounding that its own
# conditioning explains, beyond which a better order of operations is due.
MUCH = 12.0
# Deviation in units of the error that a plain reference has in the same dtype.
MUCH_MORE = 10.0


def _match(look: Look) -> Match | None:
    if look.evidence.wrong:
        return None
    for e in look.evidence.elsewhere:
        if (
            e.kind not in ("dtype", "reference")
            or e.verdict is not Verdict.PASS
            or not e.note
        ):
            continue
        try:
            times = float(e.note)
        except ValueError:
            continue
        plain = e.kind == "reference"
        if times > (MUCH_MORE if plain else MUCH):
            what = (
                "the error of the reference"
                if plain
                else "what its own rounding explains"
            )
            return Match(
                f"{look.name} loses more digits in {e.setting} than the dtype explains",
                (f"off by {times:.3g} times {what}",),
                note="a tolerance wide enough for the dtype lets this pass",
                help="avoid differences of nearly equal numbers: subtract the mean "
                "first, use log1p, expm1 and logsumexp, accumulate in a wider dtype",
            )
    return None


CARD = Card("inaccurate", Severity.WARNING, 21, _match, layers=(ELSEWHERE,))
