"""One finding, or one block without an answer, as lines: in full, short, or as one."""

from __future__ import annotations

import math
import re

from gradproof.reports import words
from gradproof.reports.numbers import column, count, plural, small, together
from gradproof.reports.page import Page, Piece, cells
from gradproof.reports.snippet import (
    GUTTER,
    diff,
    gutter,
    main,
    position,
    snippet,
    where,
)
from gradproof.verdict import Finding, Record, Severity, Source, Undecided, Worst

STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.NOTE: "bold cyan",
}
UNDECIDED_STYLE = "bold magenta"
_HELP = "bold green"
# A coordinate, with its value or without: "x[3]", "cfg['w'][0, 1].real = 0.0".
_PLACE = re.compile(r"[^\s\[]+(\[[^\]]*\])*[.\w]*( = \S+)?")


def source_of(record: Record) -> Source:
    """The source that the record knows of; an empty one where it knows none."""
    return record.evidence.source if record.evidence is not None else Source("")


def kind(finding: Finding) -> str:
    """``error[slug]``; an allowed finding says so instead of its severity."""
    return f"{'allowed' if finding.allowed else finding.severity}[{finding.slug}]"


def _headline(page: Page, finding: Finding) -> None:
    style = STYLES[finding.severity]
    lead = Piece(f"{kind(finding)}: ", style)
    page.wrap(lead, finding.headline, hang=2)


def full(page: Page, finding: Finding, source: Source) -> None:
    """Headline, spans, evidence, worst entry, note, help, confirmation."""
    _headline(page, finding)
    width = gutter(finding.spans, finding.help)
    if finding.spans:
        snippet(page, finding.spans, source, width)
    else:
        _without_span(page, source, width)
    for text in finding.evidence:
        _equals(page, width, words.EVIDENCE, text)
    if finding.worst is not None:
        _worst(page, finding.worst, width)
    if finding.note:
        _equals(page, width, words.NOTE, finding.note)
    if finding.help is None and finding.slug == words.LAST_RESORT:
        _equals(page, width, words.NOTE, words.NO_MISTAKE_KNOWN)
    _help(page, finding, width)


def _without_span(page: Page, source: Source, width: int) -> None:
    """Where no line can be shown, at least the file; a notebook may have neither."""
    arrow = Piece(" " * width + "--> ", GUTTER)
    if source.file and source.line:
        page.put(arrow, f"{where(source.file)}:{source.line}")
    elif source.name:
        page.put(arrow, words.NO_SOURCE.format(name=source.name))


def _equals(page: Page, width: int, label: str, text: str) -> None:
    page.wrap(f"{' ' * width} = {label}: ", text)


def _worst(page: Page, worst: Worst, width: int) -> None:
    # "x = 1.5" is where; anything else, such as how it was asked, says so itself.
    at = words.AT if "=" in worst.at else words.BESIDE
    at = at.format(at=worst.at) if worst.at else ""
    if worst.total > 1:
        text = words.WORST_OF.format(
            wrong=count(worst.wrong),
            entries=plural(worst.total, "entry", "entries"),
            are="is" if worst.wrong == 1 else "are",
            place=worst.place,
            at=at,
        )
    else:
        text = words.IS_WRONG.format(place=worst.place, at=at)
    _equals(page, width, words.EVIDENCE, text)
    got, expected = column((worst.got, worst.expected), worst.bar)
    lead = " " * (width + len(f" = {words.EVIDENCE}: ") + 2)
    long = len(words.EXPECTED)
    page.put(f"{lead}{words.GOT:<{long}} {got}")
    right = f"{lead}{words.EXPECTED} {expected}{plus_minus(worst.bar)}"
    method = f"({worst.method})" if worst.method else ""
    if cells(page.says(right + method)) + 3 <= page.width:
        page.put(f"{right}   {method}")
    else:
        page.put(right)
        page.wrap(" " * (len(lead) + long + 1), method)


def _help(page: Page, finding: Finding, width: int) -> None:
    help = finding.help
    if help is None:
        return
    page.wrap(Piece(words.HELP, _HELP), help.text)
    if help.old or help.new:
        diff(page, help, width)
    if help.confirmed:
        _equals(page, width, words.CONFIRMED, help.confirmed)


def plus_minus(bar: float) -> str:
    """`` ± 2.2e-12``; "" where no bar is known."""
    return "" if math.isnan(bar) else f" ± {small(bar)}"


def brief(worst: Worst) -> str:
    """``x̄[2, 0] is 0.8176, expected -1.4308 ± 2.2e-12``."""
    got, expected = _told_apart(worst)
    bar = plus_minus(worst.bar)
    return words.IS_EXPECTED.format(
        place=worst.place, got=got, expected=expected, bar=bar
    )


def _told_apart(worst: Worst) -> tuple[str, ...]:
    """Five digits of the larger, or what the bar supports if that is less."""
    largest = max(abs(worst.got), abs(worst.expected))
    coarse = max(worst.bar, largest * 1e-4) if largest < float("inf") else worst.bar
    return together((worst.got, worst.expected), coarse)


def short(page: Page, finding: Finding) -> None:
    """Headline, place, the worst entry and the help in words; no code."""
    _headline(page, finding)
    width = gutter(finding.spans)
    lead = main(finding.spans)
    if lead is not None:
        page.put(Piece(" " * width + "--> ", GUTTER), position(lead))
    if finding.worst is not None:
        _equals(page, width, words.EVIDENCE, brief(finding.worst))
    elif finding.evidence:
        _equals(page, width, words.EVIDENCE, finding.evidence[0])
    if finding.help is not None:
        page.wrap(Piece(words.HELP, _HELP), finding.help.text)


def one_line(page: Page, finding: Finding) -> None:
    """The headline and the worst entry, on one line."""
    text = finding.headline
    if finding.worst is not None:
        text += "; " + brief(finding.worst)
    page.put(Piece(f"{kind(finding)}: ", STYLES[finding.severity]), text)


def _where(where: str) -> str:
    """`` at x[3] = 0.0``, `` of y[1] by x[3]``, `` for most outputs``; "" for no place."""
    if not where:
        return ""
    if " by " in where:
        return words.OF_WHERE.format(where=where)
    place = _PLACE.fullmatch(where)
    return (words.AT_WHERE if place else words.FOR_WHERE).format(where=where)


def undecided_headline(name: str, block: Undecided) -> str:
    """What has no answer, in one sentence that is true on its own."""
    at = _where(block.where)
    template = words.UNDECIDED.get(block.reason, words.UNDECIDED_OTHERWISE)
    text = template.format(name=name, at=at)
    if block.count > 1:
        text += words.ENTRIES.format(entries=plural(block.count, "entry", "entries"))
    return text


def undecided(page: Page, name: str, block: Undecided) -> None:
    """Headline, what was measured, and what would decide it."""
    lead = Piece(f"undecided[{block.reason}]: ", UNDECIDED_STYLE)
    page.wrap(lead, undecided_headline(name, block), hang=2)
    if block.detail:
        _equals(page, 1, words.EVIDENCE, block.detail)
    if block.decide:
        page.wrap(Piece(words.HELP, _HELP), block.decide)


def undecided_line(page: Page, name: str, block: Undecided) -> None:
    """The headline of a block without an answer, alone."""
    lead = Piece(f"undecided[{block.reason}]: ", UNDECIDED_STYLE)
    page.put(lead, undecided_headline(name, block))


def suggestion(page: Page, record: Record) -> None:
    """The right backward as code, or why there is none; nothing where none was asked."""
    lead = Piece(f"{words.SUGGESTION}: ", _HELP)
    if record.no_suggestion:
        page.wrap(lead, words.NONE_SUGGESTED.format(why=record.no_suggestion))
    if record.suggestion:
        page.wrap(lead, words.SUGGESTED)
        page.put()
        for line in record.suggestion.splitlines():
            page.put(f"    {line}")
