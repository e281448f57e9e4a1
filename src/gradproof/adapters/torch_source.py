"""Where a hand-written gradient stands in the user's files."""

from __future__ import annotations

from typing import Any

import torch

from gradproof.adapters.sources import source_of
from gradproof.adapters.torch_callee import Callee
from gradproof.verdict import Source


def display_name(cls: type) -> str:
    """The name of a Function class as its author knows it (``ns::op`` of an op)."""
    definition = _operator(cls)
    return definition._qualname if definition is not None else cls.__name__


def _operator(cls: type) -> Any:
    """The CustomOpDef that a generated Function class serves, or None."""
    from torch._library.custom_ops import OPDEFS

    prefix = "GeneratedBackwardFor_"
    if not cls.__name__.startswith(prefix):
        return None
    for qualname, definition in list(OPDEFS.items()):
        overload = definition._opoverload
        called = f"{overload._namespace}_{overload._opname}_{overload._overloadname}"
        if cls.__name__ == prefix + called or qualname == called:
            return definition
    return None


def operator_forward(cls: type) -> Any:
    """The Python body of the operator that a generated Function serves, or None."""
    definition = _operator(cls)
    return None if definition is None else definition._init_fn


def source_of_custom(cls: type) -> Source:
    """The Source of a Function class that was met inside a callable."""
    definition = _operator(cls)
    if definition is not None:
        if definition._backward_fn is None:
            return Source(definition._qualname, "custom_op")
        return source_of(
            definition._backward_fn,
            definition._qualname,
            "custom_op",
            definition._init_fn,
        )
    return source_of(cls, cls.__name__, "autograd.Function")


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
