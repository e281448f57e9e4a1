"""The user's own lines, with carets under what a finding speaks of."""

from __future__ import annotations

import os
import textwrap

from gradproof.reports.page import Page, Piece, cells
from gradproof.verdict import Help, Source, Span

GUTTER, PRIMARY, SECONDARY = "blue", "bold red", "blue"
OLD, NEW = "red", "green"
_TAB = "    "
# Lines between two spans are shown as they are up to this many, else as dots.
_BETWEEN = 3
# Columns of context kept to the left where a long line must be cropped.
_LEFT = 8


def where(file: str) -> str:
    """A file as short as it can be said: relative where it lies below the cwd."""
    if not os.path.isabs(file):
        return file
    try:
        below = os.path.relpath(file)
    except ValueError:  # on another drive
        return file
    return file if below.startswith(os.pardir) else below


def position(span: Span) -> str:
    """``ops.py:13:16``: line and column, both counted from 1."""
    return f"{where(span.file)}:{span.line}:{span.start + 1}"


def gutter(spans: tuple[Span, ...], help: Help | None = None) -> int:
    """Columns that the line numbers of one block need."""
    numbers = [span.line for span in spans]
    if help is not None and (help.old or help.new):
        numbers.append(help.line + max(help.old.count("\n"), help.new.count("\n")))
    return max((len(str(n)) for n in numbers), default=1)


def main(spans: tuple[Span, ...]) -> Span | None:
    """The span that a finding is filed under: the first primary one, else the first."""
    return next((s for s in spans if s.primary), spans[0] if spans else None)


def snippet(page: Page, spans: tuple[Span, ...], source: Source, width: int) -> None:
    """All spans, file by file, the file of the main one first; closed by a bar."""
    lead = main(spans)
    if lead is None:
        return
    files = dict.fromkeys([lead.file, *(s.file for s in spans)])
    for file in files:
        here = sorted(
            (s for s in spans if s.file == file), key=lambda s: (s.line, s.start)
        )
        first = lead if file == lead.file else here[0]
        arrow = "-->" if file == lead.file else ":::"
        page.put(Piece(" " * width + arrow + " ", GUTTER), position(first))
        _bar(page, width)
        _lines(page, here, source, width)
    _bar(page, width)


def _bar(page: Page, width: int) -> None:
    page.put(Piece(" " * width + " |", GUTTER))


def _lines(page: Page, spans: list[Span], source: Source, width: int) -> None:
    before = None
    for n in dict.fromkeys(s.line for s in spans):
        here = [s for s in spans if s.line == n]
        if before is not None and n > before + 1:
            _between(page, here[0].file, source, before + 1, n, width)
        _marked(page, n, here, width)
        before = n


def _between(
    page: Page, file: str, source: Source, start: int, stop: int, width: int
) -> None:
    lines = source.text.splitlines() if file == source.file else []
    known = start - source.line >= 0 and stop - source.line <= len(lines)
    if stop - start > _BETWEEN or not known:
        page.put(Piece("." * max(width, 3), GUTTER))
        return
    for n in range(start, stop):
        text = lines[n - source.line].replace("\t", _TAB)
        _numbered(page, n, _crop(text, 0, page.width - width - 3)[0], width)


def _numbered(page: Page, n: int, text: str, width: int) -> None:
    page.put(Piece(f"{n:>{width}} | ", GUTTER), text)


def _marked(page: Page, n: int, spans: list[Span], width: int) -> None:
    """One line of code, and under it a row of carets for each of its spans."""
    raw = spans[0].text
    # Carets stand under what is printed: tabs, wide signs and ASCII words move them.
    text = page.says(raw.replace("\t", _TAB))
    starts = [_column(page, raw, s.start) for s in spans]
    stops = [
        max(_column(page, raw, s.end), at + 1)
        for s, at in zip(spans, starts, strict=True)
    ]
    shown, moved = _crop(text, min(starts), page.width - width - 3)
    _numbered(page, n, shown, width)
    for span, start, stop in zip(spans, starts, stops, strict=True):
        room = cells(shown)
        at = min(max(start + moved, 0), max(room - 1, 0))
        marks = max(min(stop + moved, room) - at, 1)
        _carets(page, span, at, marks, width)


def _carets(page: Page, span: Span, at: int, marks: int, width: int) -> None:
    style = PRIMARY if span.primary else SECONDARY
    bar = Piece(" " * width + " | ", GUTTER)
    carets = Piece(" " * at + ("^" if span.primary else "-") * marks, style)
    label = page.says(span.label)
    if width + 4 + at + marks + cells(label) <= page.width or not label:
        page.put(bar, carets, Piece(f" {label}", style))
        return
    page.put(bar, carets)
    left = min(at, max(page.width - width - 3 - cells(label), page.width // 4))
    room = page.width - width - 3 - left
    for row in textwrap.wrap(label, max(room, _LEFT)):
        page.put(bar, Piece(" " * left + row, style))


def _column(page: Page, line: str, column: int) -> int:
    return cells(page.says(line[:column].replace("\t", _TAB)))


def _crop(text: str, start: int, room: int) -> tuple[str, int]:
    """``text`` within ``room`` columns, and by how much its signs moved."""
    room = max(room, 20)
    if cells(text) <= room:
        return text, 0
    dots = "..." if text.isascii() else "…"
    cut = 0 if start < room - _LEFT else start - _LEFT
    head = dots if cut else ""
    rest = text[cut:]
    if cells(head + rest) > room:
        rest = rest[: room - len(head) - len(dots)] + dots
    return head + rest, len(head) - cut


def diff(page: Page, help: Help, width: int) -> None:
    """The lines to replace and what replaces them, between two bars."""
    _bar(page, width)
    for sign, text, style in (("-", help.old, OLD), ("+", help.new, NEW)):
        for i, row in enumerate(text.splitlines()):
            number = f"{help.line + i:>{width}} " if help.line else " " * (width + 1)
            page.put(
                Piece(number, GUTTER),
                Piece(f"{sign} {row}".replace("\t", _TAB), style),
            )
    _bar(page, width)
