"""What a thing of the user's is, told without importing a framework."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any


def is_module_class(thing: type) -> bool:
    """Whether it is a class of ``torch.nn.Module``."""
    return _is_a(thing, "torch.nn.modules.module")


def is_function(thing: Any) -> bool:
    """Whether ``thing`` is a subclass of ``torch.autograd.Function``."""
    return isinstance(thing, type) and _is_a(thing, "torch.autograd.function")


def has_backward(thing: type) -> bool:
    """Whether a Function class has a backward of its own, and is no mere base."""
    for name in ("backward", "vjp"):
        method = getattr(thing, name, None)
        if method is not None and not method.__module__.startswith("torch.autograd"):
            return True
    return False


def pairs(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions of the module that have a backward beside them, with that backward.

    By name: forward and backward, X_forward and X_backward, X and X_vjp.
    """
    own = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    for name, forward in own.items():
        stems = [(name, f"{name}_backward"), (name, f"{name}_vjp")]
        if name.endswith("forward"):
            stems.append((name, name.removesuffix("forward") + "backward"))
        if name.endswith("fwd"):
            stems.append((name, name.removesuffix("fwd") + "bwd"))
        partner = next((own[other] for _, other in stems if other in own), None)
        if partner is not None and partner is not forward:
            yield name, partner


def _is_a(thing: type, home: str) -> bool:
    """Whether a class derives from a framework's base, told by where that is defined."""
    return any(base.__module__ == home for base in thing.__mro__[1:])


def is_operator_of(thing: Any, module: ModuleType) -> bool:
    """Whether it is a custom operator of ``module`` that has a backward."""
    body = getattr(thing, "_init_fn", None)
    return (
        type(thing).__name__ == "CustomOpDef"
        and getattr(thing, "_backward_fn", None) is not None
        and getattr(body, "__module__", "") == module.__name__
    )


def line_of(thing: Any) -> int:
    """The line where it is defined; 0 where that is not known."""
    shown = getattr(thing, "_init_fn", thing)
    try:
        return inspect.getsourcelines(shown)[1]
    except (OSError, TypeError):
        return 0
