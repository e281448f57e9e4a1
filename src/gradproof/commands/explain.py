"""``gradproof explain``: the page of one mistake, or the list of all."""

from __future__ import annotations

import shutil
import sys
import textwrap

from gradproof.commands import words
from gradproof.diagnosis import pages
from gradproof.errors import UsageError
from gradproof.reports.charset import supports_unicode, to_ascii


def run(slug: str) -> int:
    """Print the page of ``slug``, or with no slug a sentence on each; return 0.

    Raises UsageError, with the nearest, for a slug that there is not.
    """
    known = pages.slugs()
    if slug and slug not in known:
        raise UsageError(words.no_slug(slug, known))
    text = pages.explain(slug).rstrip("\n") if slug else _listed(known)
    print(text if supports_unicode(sys.stdout) else to_ascii(text))
    return 0


def _listed(known: tuple[str, ...]) -> str:
    """One sentence for each name; on a terminal within its width."""
    margin = max(map(len, known), default=0) + 2
    lines = [f"{each:<{margin}}{pages.summary(each)}".rstrip() for each in known]
    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns, margin + 20)
        lines = [
            textwrap.fill(line, room, subsequent_indent=" " * margin) for line in lines
        ]
    return "\n".join(lines)
