"""Records → one page that stands alone: no script, no font, no file beside it."""

from __future__ import annotations

import html as escapes
from pathlib import Path
from typing import Any

from gradproof.errors import UsageError
from gradproof.reports import figures, terminal, words
from gradproof.reports.numbers import duration, plural, small
from gradproof.verdict import Record, Verdict

_PAGE = "report.html"


def render(*records: Record) -> str:
    """The page of one record or several, with figures inlined.

    Raises:
        UsageError: jinja2 or matplotlib cannot be imported (extra ``report``).
    """
    try:
        from jinja2 import Environment, FileSystemLoader
        from markupsafe import Markup
    except ImportError as error:
        raise UsageError(
            words.NEEDS_REPORT.format(what=words.A_PAGE, missing="jinja2")
        ) from error
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    entries = [
        {
            "record": record,
            "report": terminal.render(record, verbose=True),
            # Drawn here and escaped by matplotlib: the one piece that goes in as it is.
            "figure": Markup(_figure(record)),
            "worth": worth(record),
        }
        for record in records
    ]
    page = environment.get_template(_PAGE)
    return page.render(title=_title(records), entries=entries, words=words)


def fragment(record: Record) -> str:
    """The terminal report as HTML, for ``_repr_html_``; needs no extra."""
    text = escapes.escape(terminal.render(record), quote=False)
    return f'<pre style="line-height: 1.3; white-space: pre-wrap">{text}</pre>'


def _figure(record: Record) -> str:
    return figures.svg(figures.draw(record))


def _title(records: tuple[Record, ...]) -> str:
    if len(records) == 1:
        return f"gradproof: {records[0].verdict} {records[0].name}"
    counts = [
        f"{sum(r.verdict is verdict for r in records)} {verdict}" for verdict in Verdict
    ]
    return f"gradproof: {', '.join(counts)}"


def worth(record: Record) -> tuple[tuple[str, str], ...]:
    """What the verdict rests on, as rows of a table; empty rows left out."""
    forwards, vjps = record.evaluations
    spent = words.EVALUATIONS.format(
        forwards=plural(forwards, "forward"),
        vjps=plural(vjps, "vjp"),
        seconds=duration(record.seconds),
    )
    rows: list[tuple[str, Any]] = [
        (words.ROW_INPUTS, record.inputs),
        *((words.ROW_LIMIT.format(structure=a.structure), small(a.value))
          for a in record.limits),
        (words.ROW_COMPARED, record.compared),
        (words.ROW_LEFT_OUT, ", ".join(record.left_out)),
        (words.ROW_NOT_ASKED, ", ".join(record.not_asked)),
        (words.ROW_SPENT, spent if any(record.evaluations) else ""),
        (words.ROW_SEED, str(record.seed)),
        *record.provenance,
    ]  # fmt: skip
    return tuple((name, value) for name, value in rows if value)
