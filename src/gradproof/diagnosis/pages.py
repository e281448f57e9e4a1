"""The prose of the cards: one page for a mistake, one for a reason to be undecided."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

REASONS = (
    "kink",
    "jump",
    "noise",
    "domain",
    "vacuous",
    "stateful-forward",
    "nondeterministic-forward",
    "scale",
    "budget",
    "witnesses",
    "not-compiled",
)  # fmt: skip


@cache
def _texts() -> dict[str, str]:
    folder = files("gradproof.diagnosis.cards")
    found = {}
    for page in folder.iterdir():
        if page.name.endswith(".md"):
            slug = page.name[:-3].replace("_", "-")
            found[slug] = page.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def slugs() -> tuple[str, ...]:
    """Every name that may stand in ``allow[...]``: mistakes and undecided reasons."""
    return tuple(_texts())


def explain(slug: str) -> str:
    """The page of a slug, in Markdown.

    Raises:
        KeyError: there is no such slug; ``nearest`` says which may have been meant.
    """
    return _texts()[slug]


def nearest(word: str) -> str:
    """The slug that looks most like ``word``."""
    wanted = word.strip().lower().replace("_", "-").replace(" ", "-")
    known = slugs()
    if wanted in known:
        return wanted
    close = get_close_matches(wanted, known, n=1, cutoff=0.0)
    return close[0] if close else known[0]


def summary(slug: str) -> str:
    """The first sentence of a page: what the mistake is.

    Raises:
        KeyError: there is no such slug.
    """
    prose = explain(slug).partition("\n")[2].strip().partition("\n\n")[0]
    return re.split(r"(?<=[.!?])\s", " ".join(prose.split()), maxsplit=1)[0]
