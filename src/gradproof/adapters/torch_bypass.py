"""Functions whose forward is called as plain code, where ``apply`` was due."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from torch.autograd.function import Function

from gradproof.adapters.torch_hooks import hidden
from gradproof.adapters.torch_pair import is_pair


class Calls:
    """Which Functions were applied, and which forwards ran outside of any ``apply``."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.applied: dict[type, None] = {}
        self._outside: dict[type, None] = {}
        self._inside = 0
        self._forwards = _forwards()

    @property
    def bypassed(self) -> tuple[type, ...]:
        """Functions that were never applied, though their forward ran."""
        return tuple(cls for cls in self._outside if cls not in self.applied)

    def on_apply(
        self, cls: Any, args: Any, kwargs: Any, original: Callable[..., Any]
    ) -> Any:
        """Remember the Function, and that what runs now is inside of it."""
        self.applied.setdefault(cls)
        self._inside += 1
        try:
            return original(*args, **kwargs)
        finally:
            self._inside -= 1

    @contextmanager
    def listening(self) -> Iterator[None]:
        """See every Python function that is called, where some may be a forward."""
        if not self._forwards or sys.getprofile() is not None:
            yield  # a profiler that is at work stays: cProfile's cannot be put back
            return
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and not self._inside:
            cls = self._forwards.get(frame.f_code)
            if cls is not None:
                self._outside.setdefault(cls)


def _forwards() -> dict[CodeType, type]:
    """The code of every user's forward that there is, and whose it is."""
    found: dict[CodeType, type] = {}
    ahead: list[type] = list(Function.__subclasses__())
    for cls in ahead:
        ahead += cls.__subclasses__()
        if hidden(cls) or is_pair(cls):
            continue
        forward = getattr(vars(cls).get("forward"), "__func__", None)
        code = getattr(forward, "__code__", None)
        if code is not None:
            found.setdefault(code, cls)
    return found
