"""Record → annotations that GitHub shows beside the lines of a pull request.

The commands of a workflow log: ``::error file=ops.py,line=13::message``.
"""

from __future__ import annotations

from gradproof.reports import blocks, concise, terminal, words
from gradproof.reports.snippet import main, where
from gradproof.verdict import Finding, Record, Severity, Undecided

_COMMANDS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "notice",
}


def render(record: Record) -> str:
    """One command a finding and a block without answer; "" for a plain PASS."""
    lines = [_finding(f, record) for f in terminal.ordered(record) if not f.allowed]
    lines += [_undecided(block, record) for block in record.undecided]
    return "\n".join(lines)


def _finding(finding: Finding, record: Record) -> str:
    span = main(finding.spans)
    properties = _file(record)
    if span is not None:
        properties = {
            "file": where(span.file),
            "line": str(span.line),
            "col": str(span.start + 1),
        }
        if span.stop is None:
            properties["endColumn"] = str(span.end)
        else:
            properties["endLine"] = str(span.stop[0])
    text = concise.message(finding)
    if finding.help is not None:
        text += f"\n{words.HELP}{finding.help.text}"
    return _command(_COMMANDS[finding.severity], properties, finding.slug, text)


def _undecided(block: Undecided, record: Record) -> str:
    headline = blocks.undecided_headline(record.name, block).replace("`", "")
    parts = [headline, block.detail, words.HELP + block.decide if block.decide else ""]
    text = "\n".join(filter(None, parts))
    return _command("warning", _file(record), f"undecided: {block.reason}", text)


def _file(record: Record) -> dict[str, str]:
    source = blocks.source_of(record)
    if not source.file:
        return {}
    return {"file": where(source.file), "line": str(source.line)}


def _command(name: str, properties: dict[str, str], title: str, text: str) -> str:
    named = {**properties, "title": f"gradproof: {title}"}
    said = ",".join(f"{key}={_property(value)}" for key, value in named.items())
    return f"::{name} {said}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
