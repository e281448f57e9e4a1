"""What the user's code prints while it is asked: on stderr, and not a thousand times."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from gradproof.commands import words

MOST_LINES = 10


class _Few:
    """Stands for ``sys.stdout``: passes on the first lines, and counts the others."""

    def __init__(self, stdout: TextIO, most: int) -> None:
        self.stdout = stdout
        self.most = most
        self.lines = 0

    def write(self, text: str) -> int:
        """Like that of a stream; a debugger is let speak."""
        if sys.gettrace() is not None:
            return self.stdout.write(text)
        if self.lines < self.most:
            sys.stderr.write(text)
        self.lines += text.count("\n")
        return len(text)

    def isatty(self) -> bool:
        """It is none: what is written here is not written there."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stdout, name)


@contextmanager
def hushed(most: int = MOST_LINES) -> Iterator[None]:
    """Within, ``print`` writes to stderr, ``most`` lines of it; 0 is none at all."""
    before = sys.stdout
    few = _Few(before, most)
    sys.stdout = few
    try:
        yield
    finally:
        sys.stdout = before
        if most and few.lines > most:
            left = words.LEFT_OUT.format(count=few.lines - most)
            print(left, file=sys.stderr)
