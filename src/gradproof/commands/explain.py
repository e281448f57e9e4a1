"""``gradproof explain``: the page of one mistake, or the list of all."""

from __future__ import annotations

from gradproof.commands import words
from gradproof.diagnosis import pages
from gradproof.errors import UsageError


def run(slug: str) -> int:
    """Print the page of ``slug``, or with no slug one line for each; return 0.

    Raises UsageError, with the nearest, for a slug that there is not.
    """
    known = pages.slugs()
    if not slug:
        width = max(map(len, known), default=0)
        for each in known:
            print(f"{each:<{width}}  {pages.summary(each)}".rstrip())
        return 0
    if slug not in known:
        raise UsageError(words.no_slug(slug, known))
    print(pages.explain(slug).rstrip("\n"))
    return 0
