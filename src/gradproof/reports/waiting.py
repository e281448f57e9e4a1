"""Progress of a check that lasts: on a terminal's stderr only, gone when it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 1.0  # seconds after which progress is shown

Tell = Callable[[str, float], None]


@contextmanager
def waiting(name: str = "") -> Iterator[Tell | None]:
    """A callback for (stage, share done); None where nobody would see it.

    Nothing is shown in the first second, nor where stderr is no terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    shown = _Shown(name)
    try:
        yield shown.tell
    finally:
        shown.stop()


class _Shown:
    def __init__(self, name: str) -> None:
        self.name = name
        self.started = time.perf_counter()
        self.progress: Progress | None = None

    def tell(self, stage: str, share: float) -> None:
        """Show how far it is, once it has lasted a while."""
        if time.perf_counter() - self.started < PATIENCE:
            return
        if self.progress is None:
            self.progress = _progress()
            self.progress.start()
            self.task = self.progress.add_task(self.name, total=1.0)
        text = f"{self.name}: {stage}" if self.name else stage
        self.progress.update(self.task, completed=share, description=text)

    def stop(self) -> None:
        if self.progress is not None:
            self.progress.stop()


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        # What the user's code prints to a file or a pipe must go there all the same.
        redirect_stdout=sys.stdout.isatty(),
    )
