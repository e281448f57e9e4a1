"""Styled lines, wrapped and joined: the paper that the terminal report is written on."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from gradproof.reports.charset import to_ascii

# Below this a wrapped text is a column of single words.
_NARROWEST = 30
# "x = 1.5", "1.5 ± 2e-12", "x[2, 0]" are read as one, not torn at the end of a line.
_GLUE = "\N{NO-BREAK SPACE}"
_GLUED = re.compile(r" (=|±|\+/-|≥|>=) |(?<=\d,) (?=\d)")


@dataclass(frozen=True)
class Piece:
    """Text of one style; a style is a rich style, such as ``bold red``."""

    text: str
    style: str = ""


class Page:
    """Lines being written. Colours and charset are decided once, here."""

    def __init__(self, *, width: int = 100, ascii: bool = False) -> None:
        """``width``: columns; ``ascii``: every sign in ASCII."""
        self.width = width
        self.ascii = ascii
        self.lines: list[tuple[Piece, ...]] = []

    def __len__(self) -> int:
        """How many lines are written."""
        return len(self.lines)

    def fresh(self) -> Page:
        """An empty page of the same kind."""
        return Page(width=self.width, ascii=self.ascii)

    def says(self, text: str) -> str:
        """``text`` in the charset of this page."""
        return to_ascii(text) if self.ascii else text

    def put(self, *pieces: Piece | str) -> None:
        """One line as it stands; trailing blanks are dropped."""
        line = [
            Piece(self.says(p), "") if isinstance(p, str) else _said(self, p)
            for p in pieces
        ]
        while line and not line[-1].text.rstrip():
            line.pop()
        if line:
            line[-1] = Piece(line[-1].text.rstrip(), line[-1].style)
        self.lines.append(tuple(line))

    def wrap(self, lead: Piece | str, text: str, *, hang: int | None = None) -> None:
        """``lead``, then ``text`` wrapped to the width, hanging under its own start."""
        first = Piece(self.says(lead)) if isinstance(lead, str) else _said(self, lead)
        indent = len(first.text) if hang is None else hang
        room = max(self.width - len(first.text), _NARROWEST)
        said = _GLUED.sub(lambda m: m[0].replace(" ", _GLUE), self.says(text))
        for paragraph in said.splitlines() or [""]:
            for row in textwrap.wrap(
                paragraph, room, break_long_words=False, break_on_hyphens=False
            ) or [""]:
                self.put(first, row.replace(_GLUE, " "))
                first = Piece(" " * indent)

    def extend(self, other: Page) -> None:
        """All lines of another page."""
        self.lines.extend(other.lines)

    def text(self, *, colour: bool = False) -> str:
        """The page as one string without a final newline."""
        if not colour:
            return "\n".join("".join(p.text for p in line) for line in self.lines)
        return "\n".join("".join(map(_coloured, line)) for line in self.lines)


def _said(page: Page, piece: Piece) -> Piece:
    return Piece(page.says(piece.text), piece.style)


def _coloured(piece: Piece) -> str:
    if not piece.style or not piece.text:
        return piece.text
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(piece.style).render(
        piece.text, color_system=ColorSystem.STANDARD
    )


def cells(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
