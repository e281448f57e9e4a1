"""The user's exceptions as data, without our own frames."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from gradproof.verdict import Failure

_OURS = str(Path(__file__).resolve().parent.parent)


class Exited(Exception):
    """The user's code called ``sys.exit``: a failure of it, and no end of ours."""

    def __init__(self, original: SystemExit) -> None:
        """Keep what was raised."""
        super().__init__(original.code)
        self.original = original


def told(error: BaseException | None) -> None:
    """Raise ``Exited`` in place of a SystemExit; for the end of every call."""
    if isinstance(error, SystemExit):
        raise Exited(error) from error


def _theirs(frame: traceback.FrameSummary) -> bool:
    """Whether a frame is not gradproof's (the user's, or a library's)."""
    return not frame.filename.startswith(_OURS)


def failure_of(error: BaseException) -> Failure:
    """What the user's code raised, where, and its traceback as they would know it."""
    if isinstance(error, Exited):
        error = error.original
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _theirs(f)]
    mine = [f for f in frames if "site-packages" not in f.filename] or frames
    last = mine[-1] if mine else None
    trace = "".join(
        ["Traceback (most recent call last):\n"] * bool(frames)
        + traceback.format_list(frames)
        + traceback.format_exception_only(error)
    )
    return Failure(
        kind=type(error).__name__,
        message=str(error).strip(),
        file=last.filename if last else "",
        line=(last.lineno or 0) if last else 0,
        trace=trace,
    )


def peeled(error: BaseException) -> BaseException:
    """``error`` with our frames taken off the front of its traceback."""
    tb: TracebackType | None = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_OURS):
        tb = tb.tb_next
    return error.with_traceback(tb) if tb is not None else error
