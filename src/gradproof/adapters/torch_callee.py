"""What a user may hand over as the thing to be proved, and how each is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import Function

from gradproof.adapters.randomness import source_of
from gradproof.adapters.reach import reached
from gradproof.adapters.torch_pair import pair_of
from gradproof.errors import UsageError


@dataclass(frozen=True, eq=False)
class Callee:
    """A thing to be called, and where its names are to be read.

    ``signature`` is what names the arguments, after its first ``skip`` parameters.
    ``function`` is the Function class where the thing is one; ``rule`` the object whose
    source is the hand-written gradient, where it is known already.
    """

    call: Callable[..., Any]
    kind: str
    name: str
    signature: Callable[..., Any] | None
    skip: int = 0
    function: type[Function] | None = None
    module: torch.nn.Module | None = None
    rule: Any = None
    forward: Any = None
    uses: tuple[torch.nn.Module, ...] = ()
    generators: tuple[tuple[str, Any], ...] = field(default=())


def recognise(thing: Any, name: str | None = None) -> Callee:
    """The Callee for ``thing``, or a UsageError that says what is wrong with it."""
    if isinstance(thing, type):
        return _of_class(thing, name)
    if isinstance(thing, Function):
        called = type(thing).__name__
        raise UsageError(
            f"Expected a gradient to check but got an instance of {called}; "
            f"pass the class itself ({called}) or {called}.apply."
        )
    if isinstance(thing, torch.nn.Module):
        return _of_module(thing, name)
    owner = getattr(thing, "__self__", None)
    if (
        isinstance(owner, type)
        and issubclass(owner, Function)
        and getattr(thing, "__name__", "") == "apply"
    ):
        return _of_class(owner, name)
    operator = _of_operator(thing, name)
    if operator is not None:
        return operator
    if not callable(thing):
        raise UsageError(
            f"Expected a function, an autograd.Function or a module but got "
            f"{type(thing).__name__} ({_short(thing)}), which cannot be called."
        )
    return _of_function(thing, name)


def _short(thing: Any) -> str:
    text = " ".join(repr(thing).split())
    return text if len(text) <= 40 else text[:37] + "..."


def _of_class(cls: type, name: str | None) -> Callee:
    called = cls.__name__
    if not issubclass(cls, Function):
        if issubclass(cls, torch.nn.Module):
            raise UsageError(
                f"Expected a module but got the class {called}; "
                f"pass an instance of it, {called}(...)."
            )
        raise UsageError(
            f"Expected an autograd.Function but got the class {called}, which is none; "
            f"pass a function, or derive {called} from torch.autograd.Function."
        )
    if cls.backward is Function.backward and cls.vjp is Function.vjp:
        raise UsageError(
            f"{called} has no backward, so there is no gradient to check; "
            f"write a static method backward(ctx, grad_output)."
        )
    return Callee(
        call=cls.apply,
        kind="autograd.Function",
        name=name or called,
        signature=cls.forward,
        skip=0 if is_new_style(cls) else 1,
        function=cls,
        rule=cls,
    )


def is_new_style(cls: type[Function]) -> bool:
    """Whether a Function has a ``setup_context``, and so a forward without ctx."""
    return cls.setup_context is not Function.setup_context


def _of_module(module: torch.nn.Module, name: str | None) -> Callee:
    return Callee(
        call=module,
        kind="module",
        name=name or type(module).__name__,
        signature=module.forward,
        module=module,
        uses=(module,),
    )


def _of_operator(thing: Any, name: str | None) -> Callee | None:
    definition = _definition(thing)
    if definition is not None:
        return Callee(
            call=thing,
            kind="custom_op",
            name=name or definition._qualname,
            signature=definition._init_fn,
            rule=definition._backward_fn,
            forward=definition._init_fn,
        )
    if isinstance(thing, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return Callee(
            call=thing,
            kind="custom_op",
            name=name or str(thing),
            signature=_schema_signature(thing),
        )
    return None


def _definition(thing: Any) -> Any:
    """The CustomOpDef behind ``thing``, or None."""
    from torch._library.custom_ops import OPDEFS, CustomOpDef

    if isinstance(thing, CustomOpDef):
        return thing
    if isinstance(thing, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        packet: Any = getattr(thing, "overloadpacket", thing)
        return OPDEFS.get(packet._qualified_op_name)
    return None


def _schema_signature(thing: Any) -> Callable[..., Any] | None:
    overload: Any = thing
    if isinstance(thing, torch._ops.OpOverloadPacket):
        first = thing.overloads()[0]  # type: ignore[no-untyped-call]
        overload = getattr(thing, first)

    def named(*args: Any) -> None:
        """Bear the names of the schema's arguments."""

    named.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(a.name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for a in overload._schema.arguments
        ]
    )
    return named


def of_pair(
    forward: Callable[..., Any], backward: Callable[..., Any], name: str | None
) -> Callee:
    """The Callee for a raw pair."""
    pair = pair_of(forward, backward, name)
    modules, generators = captured(forward)
    more, others = captured(backward)
    return Callee(
        call=pair,
        kind="pair",
        name=name or pair.function.__name__,
        signature=forward,
        function=pair.function,
        rule=backward,
        forward=forward,
        uses=modules + more,
        generators=generators + others,
    )


def _of_function(thing: Callable[..., Any], name: str | None) -> Callee:
    modules, generators = captured(thing)
    inner = thing
    while isinstance(inner, functools.partial):
        inner = inner.func
    called = _name(inner)
    return Callee(
        call=thing,
        kind="function",
        name=name or called,
        signature=thing,
        forward=inner,
        uses=modules,
        generators=generators,
    )


def _name(thing: Any) -> str:
    """What the author calls a function; a method with its class before it."""
    if hasattr(thing, "__code__") or hasattr(thing, "__func__"):
        name: str = thing.__qualname__.rsplit("<locals>.", 1)[-1]
        return name
    return str(getattr(thing, "__name__", type(thing).__name__))


def captured(
    thing: Any,
) -> tuple[tuple[torch.nn.Module, ...], tuple[tuple[str, Any], ...]]:
    """Modules and random generators that a function reaches without being handed."""
    found = reached(thing)
    modules = tuple(t for _, t in found if isinstance(t, torch.nn.Module))
    return modules, tuple((n, t) for n, t in found if is_generator(t))


def is_generator(thing: Any) -> bool:
    """Whether ``thing`` is a random generator of torch, NumPy or Python."""
    return isinstance(thing, torch.Generator) or source_of(thing, "") is not None
