"""Extents of axes: whole numbers, symbols, and sums and products of these ("2*N+1").

An extent is an ``int``, or a ``str`` in the normal form that ``parse_extent`` gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count
from typing import TypeAlias

from gradproof.errors import UsageError

Extent: TypeAlias = int | str

_PIECE = re.compile(r"\s*(?:([0-9]+)|([^\W\d]\w*)|(//|[*+\-]))")

# No two alike, none a multiple of another: a confusion of axes then shows as an error.
_DEFAULTS = (3, 5, 4, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


def parse_extent(text: str) -> Extent:
    """The normal form of an extent: no blanks; an ``int`` where there is no symbol.

    Raises UsageError when ``text`` is not made of whole numbers, names, and + - * //.
    """
    pieces = _pieces(text)
    if len(pieces) == 1 and pieces[0].isdigit():
        return int(pieces[0])
    if not any(piece[0].isalpha() or piece[0] == "_" for piece in pieces):
        return evaluate("".join(pieces), {})
    return "".join(pieces)


def symbols(extents: Iterable[Extent]) -> tuple[str, ...]:
    """The symbols in ``extents``, each once, in order of appearance."""
    found = (
        piece
        for extent in extents
        if isinstance(extent, str)
        for piece in _pieces(extent)
        if not piece[0].isdigit() and piece[0] not in "*+-/"
    )
    return tuple(dict.fromkeys(found))


def evaluate(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The number that ``extent`` stands for; products bind tighter than sums.

    Raises UsageError for a symbol without a size and for a division by nothing.
    """
    if isinstance(extent, int):
        return extent
    pieces = _pieces(extent)
    total, sign = 0, 1
    product = _number(pieces[0], sizes, extent)
    for operator, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        number = _number(piece, sizes, extent)
        if operator == "*":
            product *= number
        elif operator == "//":
            if number == 0:
                raise UsageError(f"the extent {extent} divides by 0")
            product //= number
        else:
            total += sign * product
            sign = 1 if operator == "+" else -1
            product = number
    return total + sign * product


def fill(wanted: Iterable[str], sizes: Mapping[str, int]) -> dict[str, int]:
    """``sizes`` with a number for each symbol in ``wanted`` that has none.

    The numbers are small, all different, and no multiples of each other.
    """
    out = dict(sizes)
    for symbol in wanted:
        if symbol not in out:
            out[symbol] = _fresh(out.values(), chain(_DEFAULTS, count(59, 2)))
    return out


def neighbours(wanted: Iterable[str], sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """Other sizes at which to ask the same question, most telling first.

    First every symbol at another size at once; then, one symbol at a time, the size 1
    (an axis that broadcasts) and one past a power of two (a tail of a tile).
    """
    base = fill(wanted, sizes)
    order = tuple(dict.fromkeys(wanted))
    if not order:
        return []
    other: dict[str, int] = dict(base)
    for symbol in order:
        taken = [base[symbol], *(other[s] for s in order if other[s] != base[s])]
        other[symbol] = _fresh(taken, iter((2, 5, 3, 7, 6, 11, 13, 17, 19, 23, 29, 31)))
    out = [other]
    for number in (1, 17):
        for symbol in order:
            if base[symbol] != number:
                out.append({**base, symbol: number})
    return out


def _fresh(taken: Iterable[int], offered: Iterator[int]) -> int:
    """The first number offered that neither divides nor is divided by one taken."""
    held = [n for n in taken if n > 1]
    for number in offered:
        if all(number % n and n % number for n in held):
            return number
    return max(held, default=1) + 1


def _pieces(text: str) -> list[str]:
    pieces: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _PIECE.match(text, at)
        operator = match is not None and match.group(3) is not None
        if match is None or operator != bool(len(pieces) % 2):
            break
        pieces.append(match.group(match.lastindex or 0))
        at = match.end()
    if at < end or len(pieces) % 2 == 0:
        raise UsageError(
            f"{text!r} is not an extent; write a whole number, a name such as B,"
            " or a sum or product of these such as 2*N+1"
        )
    return pieces


def _number(piece: str, sizes: Mapping[str, int], whole: Extent) -> int:
    if piece.isdigit():
        return int(piece)
    if piece not in sizes:
        raise UsageError(f"the extent {whole} needs a size for {piece}")
    return sizes[piece]
