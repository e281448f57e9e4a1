"""Which custom gradient inside a callable errs, told from the proof of each alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradproof.verdict import Finding, Record, Severity, Verdict


def guilty(records: Sequence[Record]) -> list[Record]:
    """Those that are wrong alone."""
    return [r for r in records if r.verdict is Verdict.FAIL]


def declared(records: Sequence[Record]) -> list[Record]:
    """Those that are not the derivative, and were declared so; none if one is unclear."""
    if any(r.verdict is not Verdict.PASS for r in records):
        return []
    return [r for r in records if any(_error(f) for f in r.findings)]


def blame(
    findings: tuple[Finding, ...],
    whole: str,
    records: Sequence[Record],
    wrong: Sequence[Record],
) -> tuple[Finding, ...]:
    """``findings`` of the callable named ``whole``, its errors told as those of its parts.

    ``records`` are the proofs of all parts, ``wrong`` of those that are to blame; where
    there are none, the leading finding stays, and says that each is right alone.
    """
    said = tuple(_said(r) for r in records) if len(records) > 1 else ()
    if not wrong:
        return (_adding(findings[0], said), *findings[1:])
    told = [
        f
        for r in wrong
        for f in r.findings
        if _error(f) and (r.verdict is Verdict.PASS or not f.allowed)
    ]
    # Alone it may show more; what the whole showed of it leads.
    told.sort(key=lambda f: f.slug != findings[0].slug)
    first = _adding(told[0], (f"applied inside `{whole}`", *said))
    return (first, *told[1:], *(f for f in findings if not _error(f)))


def _error(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR


def _adding(finding: Finding, more: tuple[str, ...]) -> Finding:
    return replace(finding, evidence=(*finding.evidence, *more))


def _said(record: Record) -> str:
    """What became of one custom gradient, asked alone."""
    if record.verdict is Verdict.FAIL:
        errors = [f.slug for f in record.findings if _error(f) and not f.allowed]
        return f"`{record.name}` alone is wrong: {', '.join(dict.fromkeys(errors))}"
    if record.verdict is Verdict.UNDECIDED:
        return f"`{record.name}` alone is undecided"
    return f"`{record.name}` alone is right"
