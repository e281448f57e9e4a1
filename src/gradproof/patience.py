"""An end to questions that the user's code was not written for.

A solver that iterates to 1e-9 never gets there in float32. Who asks it in another dtype
than the author's must be able to give up.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A question in another dtype may take this many times what it took in the author's.
TIMES, AT_LEAST = 20.0, 2.0  # at least: seconds


class TooLong(BaseException):
    """Raised in the code that takes too long; no ``except Exception`` there stops it."""


def allowance(plain: Callable[[], object]) -> float:
    """Seconds to wait for what takes ``plain`` some time in the author's own dtype."""
    started = time.perf_counter()
    plain()
    return AT_LEAST + TIMES * (time.perf_counter() - started)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise ``TooLong`` in this thread where the block is not done after ``seconds``.

    Python code is interrupted between two of its instructions; a single call into
    compiled code runs to its end first.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    lock, done = threading.Lock(), threading.Event()

    def give_up() -> None:
        with lock:
            if not done.is_set():
                raise_in(thread, ctypes.py_object(TooLong))

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            # What was raised before this arrives here at the latest. Taking it back by
            # raising nothing would leave the interpreter waiting for it for ever.
            done.set()
        timer.cancel()
