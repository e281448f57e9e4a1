"""Record → one line a finding: for editors and the logs of a CI."""

from __future__ import annotations

from gradproof.reports import blocks, terminal, words
from gradproof.reports.charset import to_ascii
from gradproof.reports.snippet import main, position, where
from gradproof.verdict import Finding, Record, Undecided, Verdict


def render(record: Record, *, ascii: bool = False) -> str:
    """One line a finding and a block without answer; a plain PASS is its one line.

    Each begins with ``file:line:column:`` where a place is known, as editors expect.
    """
    lines = [finding_line(f, record) for f in terminal.ordered(record) if not f.allowed]
    lines += [undecided_line(block, record) for block in record.undecided]
    if record.verdict is Verdict.PASS:
        notes = (words.NOTED_HERE.format(note=note) for note in record.notes)
        lines.insert(0, "".join([terminal.passed_line(record), *notes]))
    text = "\n".join(lines) or f"{record.verdict} {record.name}"
    return to_ascii(text) if ascii else text


def place(record: Record, finding: Finding | None = None) -> str:
    """``ops.py:13:16: ``, or as much of it as is known."""
    span = main(finding.spans) if finding is not None else None
    if span is not None:
        return f"{position(span)}: "
    source = blocks.source_of(record)
    return f"{where(source.file)}:{source.line}: " if source.file else ""


def message(finding: Finding) -> str:
    """The headline and the worst entry, without backticks."""
    text = finding.headline
    if finding.worst is not None:
        text += "; " + blocks.brief(finding.worst)
    return text.replace("`", "")


def finding_line(finding: Finding, record: Record) -> str:
    """``ops.py:13:16: error[slug] headline; worst entry``."""
    return f"{place(record, finding)}{blocks.kind(finding)} {message(finding)}"


def undecided_line(block: Undecided, record: Record) -> str:
    """``ops.py:10: undecided[kink] headline``."""
    text = blocks.undecided_headline(record.name, block).replace("`", "")
    return f"{place(record)}undecided[{block.reason}] {text}"
