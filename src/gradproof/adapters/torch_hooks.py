"""Seeing every custom Function that is applied, and every backward that runs.

``Function.apply`` gets another code object for as long as somebody watches, so that an
``op = F.apply`` captured long before is seen too; ``BackwardCFunction.apply`` is what the
engine calls, and shows the raw gradients. Both are put back when the last watcher goes.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

_MODULE = "_gradproof_apply_hook"

Apply = Callable[..., Any]
OnApply = Callable[[Any, tuple[Any, ...], dict[str, Any], Apply], Any]
OnBackward = Callable[[Any, tuple[Any, ...], Apply], Any]


@dataclass(eq=False)
class Watcher:
    """What is called instead, on the thread that watches.

    ``on_apply(cls, args, kwargs, original)`` and ``on_backward(node, grads, original)``
    must return what ``original`` would.
    """

    on_apply: OnApply | None = None
    on_backward: OnBackward | None = None
    thread: int = 0


_LOCK = threading.Lock()
_WATCHERS: list[Watcher] = []
_UNDO: list[Callable[[], None]] = []


def hidden(cls: Any) -> bool:
    """Whether a Function class is PyTorch's own and no user's."""
    module = getattr(cls, "__module__", "") or ""
    if not (module == "torch" or module.startswith("torch.")):
        return False
    return not cls.__name__.startswith("GeneratedBackwardFor_")


def _mine(attribute: str) -> Any:
    """The newest watcher of this thread that wants ``attribute``.

    Backwards on an accelerator run on the engine's own threads; a lone watcher gets
    those too.
    """
    me = threading.get_ident()
    for watcher in reversed(_WATCHERS):
        if watcher.thread == me and getattr(watcher, attribute) is not None:
            return getattr(watcher, attribute)
    if attribute == "on_backward" and len(_WATCHERS) == 1:
        main = {t.ident for t in threading.enumerate()}
        if me not in main:
            return _WATCHERS[0].on_backward
    return None


def _hook_apply() -> None:
    function = torch.autograd.Function.__dict__["apply"].__func__
    code = function.__code__
    original = types.FunctionType(
        code,
        function.__globals__,
        "apply",
        function.__defaults__,
        function.__closure__,
    )

    def hook(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler = _mine("on_apply")
        if handler is None or hidden(cls):
            return original(cls, *args, **kwargs)
        return handler(cls, args, kwargs, lambda *a, **k: original(cls, *a, **k))

    module = types.ModuleType(_MODULE)
    module.hook = hook  # type: ignore[attr-defined]
    sys.modules[_MODULE] = module
    replacement = _replacement_code()
    if replacement.co_freevars == code.co_freevars:
        function.__code__ = replacement

        def undo() -> None:
            function.__code__ = code
    else:
        saved = torch.autograd.Function.__dict__["apply"]

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return hook(cls, args, kwargs)

        torch.autograd.Function.apply = classmethod(apply)  # type: ignore[method-assign, assignment]

        def undo() -> None:
            torch.autograd.Function.apply = saved  # type: ignore[method-assign]

    def clean() -> None:
        undo()
        sys.modules.pop(_MODULE, None)

    _UNDO.append(clean)


def _replacement_code() -> types.CodeType:
    # The body runs with torch's globals and must have the free variables of the
    # original; hence the import inside, and a cell named __class__.
    __class__ = None

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        __class__  # noqa: B018
        from _gradproof_apply_hook import (  # type: ignore[import-not-found]
            hook,
        )

        return hook(cls, args, kwargs)

    return apply.__code__


def _hook_backward() -> None:
    for name in ("apply", "apply_boxed"):
        if name in BackwardCFunction.__dict__:
            _replace_backward(name)


def _replace_backward(name: str) -> None:
    original = BackwardCFunction.__dict__[name]

    def replaced(self: Any, *args: Any) -> Any:
        handler = _mine("on_backward")
        if handler is None or hidden(self._forward_cls):
            return original(self, *args)
        return handler(self, args, lambda *a: original(self, *a))

    setattr(BackwardCFunction, name, replaced)
    _UNDO.append(lambda: setattr(BackwardCFunction, name, original))


@contextmanager
def watching(
    on_apply: OnApply | None = None, on_backward: OnBackward | None = None
) -> Iterator[None]:
    """Call the handlers for the user's Functions on this thread, while inside."""
    watcher = Watcher(on_apply, on_backward, threading.get_ident())
    with _LOCK:
        if not _WATCHERS:
            _hook_apply()
            _hook_backward()
        _WATCHERS.append(watcher)
    try:
        yield
    finally:
        with _LOCK:
            _WATCHERS.remove(watcher)
            if not _WATCHERS:
                while _UNDO:
                    _UNDO.pop()()


def hooks_stand() -> bool:
    """Whether hooks on saved tensors stand here; PyTorch's own code alone knows."""
    top = torch._C._autograd._top_saved_tensors_default_hooks
    return top(True) is not None  # noqa: FBT003


@contextmanager
def packing() -> Iterator[list[Any]]:
    """The hooks on saved tensors that stand already, or are set inside.

    What they keep instead of a saved tensor, and whether it is told when that is written
    on, is theirs to say: offloading may keep the tensor's own memory.
    """
    hooks = torch.autograd.graph.saved_tensors_hooks
    found: list[Any] = ["standing"] if hooks_stand() else []
    enter = hooks.__enter__

    def noted(self: Any) -> None:
        found.append(self)
        enter(self)

    hooks.__enter__ = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        hooks.__enter__ = enter  # type: ignore[method-assign]
