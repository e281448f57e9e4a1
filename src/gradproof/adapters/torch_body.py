"""Autodiff through the body of a hand-written forward, and where its graph is cut."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.overrides import TorchFunctionMode

from gradproof.adapters.torch_callee import is_new_style
from gradproof.adapters.torch_hooks import watching
from gradproof.adapters.torch_pair import is_pair
from gradproof.adapters.torch_source import is_generated, operator_forward

_OURS = str(Path(__file__).resolve().parent.parent)
_TORCH = str(Path(torch.__file__).resolve().parent)


class NoBody(Exception):
    """An operator that is not written in Python."""


class BodyCtx(FunctionCtx):
    """A ctx for a forward that is run as plain code."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        """``needs`` is what ``ctx.needs_input_grad`` shall be."""
        self.needs_input_grad = needs
        self.to_save: tuple[Any, ...] = ()
        self.materialize_grads = True

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, as it was given."""
        return tuple(self.to_save)


def run_body(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The forward of a Function as ordinary code, seen by autograd."""
    if is_generated(cls):
        body = operator_forward(cls)
        if body is None:
            raise NoBody(f"{cls.__name__} has no body in Python")
        # The last argument is PyTorch's own.
        keywords = getattr(args[-1], "keyword_only_args", {})
        return body(*map(_writable, args[:-1]), **keywords)
    if is_pair(cls):
        return cls.pair.call.run(tuple(map(_writable, args)))
    if is_new_style(cls):
        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        args, kwargs = bound.args, bound.kwargs
    needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    args = tuple(map(_writable, args))
    if is_new_style(cls):
        return cls.forward(*args, **kwargs)
    return cls.forward(BodyCtx(needs), *args, **kwargs)


def _writable(a: Any) -> Any:
    """A tensor that the body may write on, which a leaf is not."""
    if isinstance(a, Tensor) and a.requires_grad and a.is_leaf:
        return a.clone()
    return a


@contextmanager
def bodies() -> Iterator[None]:
    """Within, every custom Function runs its body in place of its rule."""

    def on_apply(cls: Any, args: Any, kwargs: Any, original: Callable[..., Any]) -> Any:
        return run_body(cls, args, kwargs)

    with watching(on_apply):
        yield


_LEAVE = {"item", "numpy", "tolist", "__array__", "__float__", "__int__"}
_MAKERS = (
    "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
    "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "randint_like",
)  # fmt: skip


class Cuts(TorchFunctionMode):
    """Notes every call that takes a graph in and gives floating numbers without one.

    ``paused`` is for the inside of a Function, where there is no graph on purpose.
    """

    def __init__(self) -> None:
        """Begin with nothing seen."""
        super().__init__()
        self.paused = 0
        self._seen: dict[str, None] = {}

    @property
    def places(self) -> tuple[str, ...]:
        """As in "detach (ops.py:12)", in order."""
        return tuple(self._seen)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call ``func`` and look at what came of the graph."""
        result = func(*args, **(kwargs or {}))
        if not self.paused:
            name = _name(func)
            if name not in _MAKERS and _carries(args) and _cut(name, result):
                self._seen.setdefault(f"{name}{_place()}")
        return result


def _name(func: Any) -> str:
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", name)
    return str(name)


def _carries(args: tuple[Any, ...]) -> bool:
    return any(
        isinstance(a, Tensor) and a.requires_grad
        for item in args
        for a in (item if isinstance(item, (tuple, list)) else (item,))
    )


def _cut(name: str, result: Any) -> bool:
    if name in _LEAVE:
        return True
    return (
        isinstance(result, Tensor)
        and (result.is_floating_point() or result.is_complex())
        and not result.requires_grad
    )


def _place() -> str:
    """Where in the user's code this is, as " (ops.py:12)"."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OURS, _TORCH)) and not file.startswith("<"):
            return f" ({Path(file).name}:{frame.f_lineno})"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""
