"""Right here, wrong in another setting: what the nested evidence says."""

from __future__ import annotations

from gradproof.diagnosis.finding import worst
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.raised import quoted
from gradproof.verdict import Elsewhere, Evidence, Verdict, Worst


def failing(look: Look, *kinds: str) -> list[Elsewhere]:
    """Settings of these kinds in which the rule is wrong, where it is right here.

    A rule that is wrong at home is wrong elsewhere by the same mistake.
    """
    if look.evidence.wrong:
        return []
    return [
        e
        for e in look.evidence.elsewhere
        if e.kind in kinds and e.verdict is Verdict.FAIL
    ]


def told(settings: list[Elsewhere]) -> tuple[str, ...]:
    """One sentence for each setting."""
    out = []
    for s in settings:
        if s.failure is not None:
            out.append(f"{s.setting}: {quoted(s.failure)}")
            continue
        found = numbers(s.evidence)
        if found is not None and found.total:
            out.append(f"{s.setting}: {found.wrong} of {found.total} entries are wrong")
        else:
            out.append(f"{s.setting}: wrong" + (f" ({s.note})" if s.note else ""))
    return tuple(out)


def numbers(evidence: Evidence | None) -> Worst | None:
    """The worst entry of nested evidence."""
    return worst(Look.at(evidence)) if evidence is not None else None
