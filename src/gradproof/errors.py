"""What a caller of gradproof may catch."""

from __future__ import annotations

from typing import Any


class GradproofError(Exception):
    """Base of everything that gradproof raises on purpose."""


class UsageError(GradproofError):
    """The question cannot be asked as it stands.

    The message is one sentence or a few: what was given, where, what was expected,
    what to do. ``__cause__`` may hold the exception of the user's own code.
    """


class UserCodeError(UsageError):
    """The user's own code raised where an answer was needed.

    ``trace`` is the user's traceback, without gradproof's frames.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        """Keep the sentence for the reader and the user's traceback beside it."""
        super().__init__(message)
        self.trace = trace


class GradientMismatch(AssertionError):
    """Raised by ``assert_gradient``; ``report`` is the whole report."""

    def __init__(self, report: Any) -> None:
        """Take the report; its text is the message."""
        super().__init__(str(report))
        self.report = report
