"""Pieces of the user's source that belong to a finding; only where they are certain."""

from __future__ import annotations

from gradproof.diagnosis.card import Match
from gradproof.diagnosis.look import Look
from gradproof.verdict import Span


def of(slug: str, match: Match, look: Look) -> tuple[Span, ...]:
    """The spans of a finding, the one to look at first marked primary."""
    return ()


def rewrite(match: Match, look: Look) -> tuple[str, str, int]:
    """(old line, new line, line number) of a one-line repair, or ("", "", 0)."""
    return "", "", 0
