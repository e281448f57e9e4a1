"""Where a hand-written gradient stands in the user's files."""

from __future__ import annotations

from typing import Any

import torch

from gradproof.adapters.sources import source_of
from gradproof.adapters.torch_callee import Callee
from gradproof.verdict import Source

_GENERATED = "GeneratedBackwardFor_"


def display_name(cls: type) -> str:
    """The name of a Function class as its author knows it (``ns::op`` of an op)."""
    operator = _in_closure(cls, "op")
    if operator is None:
        return cls.__name__
    name: str = operator.name().removesuffix(".default")
    return name


def is_generated(cls: type) -> bool:
    """Whether PyTorch made the Function class, for a ``torch.library`` operator."""
    return cls.__name__.startswith(_GENERATED)


def _in_closure(cls: type, name: str) -> Any:
    """What the halves of a generated Function hold under ``name``, or None."""
    if not is_generated(cls):
        return None
    ahead: list[Any] = [vars(cls).get("forward"), vars(cls).get("backward")]
    for thing in ahead:
        function = getattr(thing, "__func__", thing)
        code = getattr(function, "__code__", None)
        if code is None:
            continue
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        held = {key: cell.cell_contents for key, cell in cells}
        if name in held:
            return held[name]
        # One for lists of tensors wraps the halves of the other.
        ahead += [held[key] for key in ("orig_forward", "orig_backward") if key in held]
    return None


def operator_of(cls: type) -> Any:
    """What to call for the operator that a generated Function serves."""
    info = _in_closure(cls, "info")
    return info if callable(info) else _in_closure(cls, "op")


def operator_forward(cls: type) -> Any:
    """The Python body of the operator that a generated Function serves, or None."""
    return getattr(_in_closure(cls, "info"), "_init_fn", None)


def source_of_custom(cls: type) -> Source:
    """The Source of a Function class that was met inside a callable."""
    if not is_generated(cls):
        return source_of(cls, cls.__name__, "autograd.Function")
    name = display_name(cls)
    backward = getattr(_in_closure(cls, "info"), "_backward_fn", None)
    if backward is None:
        return Source(name, "custom_op")
    return source_of(backward, name, "custom_op", operator_forward(cls))


def source_of_compiled(name: str) -> Source:
    """The Source of a Function written in C++: its name is all there is."""
    return Source(name, "autograd.Function (C++)")


def source_of_callee(callee: Callee, custom: tuple[Source, ...]) -> Source:
    """What is under test: the thing itself, or the one custom gradient inside it."""
    if callee.rule is not None:
        return source_of(callee.rule, callee.name, callee.kind, callee.forward)
    if len(custom) == 1:
        return custom[0]
    target = callee.forward
    if callee.module is not None:
        target = type(callee.module)
        if type(callee.module).__module__.startswith("torch."):
            target = None
    if target is None or isinstance(target, torch._ops.OpOverload):
        return Source(callee.name, callee.kind)
    return source_of(target, callee.name, callee.kind)
