"""A finding as text, without the numbers that a busy machine or another step may move."""

from __future__ import annotations

import re

from gradproof.verdict import Finding

SMALL = re.compile(r"-?\d+(\.\d+)?e-\d+")


def told(finding: Finding) -> str:
    """Everything that the finding says, one thing a line."""
    lines = [f"{finding.severity}[{finding.slug}]: {finding.headline}"]
    lines += [f"evidence: {text}" for text in finding.evidence]
    for span in finding.spans:
        kind = "at" if span.primary else "see"
        code = span.text[span.start : span.end].strip()
        lines.append(f"{kind}: {code}  <- {span.label}")
    if finding.worst is not None:
        lines.append(f"worst: {finding.worst.place}")
    if finding.note:
        lines.append(f"note: {finding.note}")
    if finding.help is not None:
        lines.append(f"help: {finding.help.text}")
        for sign, code in (("-", finding.help.old), ("+", finding.help.new)):
            lines += [f"{sign} {row.strip()}" for row in code.splitlines()]
        if finding.help.confirmed:
            lines.append(f"confirmed: {finding.help.confirmed}")
    return SMALL.sub("~", "\n".join(lines))
