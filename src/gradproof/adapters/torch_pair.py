"""A raw forward and its backward, made an autograd.Function of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function

from gradproof.adapters import trees
from gradproof.adapters.torch_tensors import can_vary, is_tensor
from gradproof.errors import UsageError


class Pair:
    """Calls ``forward`` through a Function whose backward is ``backward``.

    ``backward(grad_output, *inputs, **kwargs)`` gives the gradient of a lone input, or
    a tuple with one for each positional argument (nested as that is), or a flat tuple
    with one for each tensor (or each real or complex one) among all, or a dict by parameter name; None for
    those that have none. ``grad_output`` is nested as the output is.
    """

    def __init__(
        self, forward: Callable[..., Any], backward: Callable[..., Any], name: str
    ) -> None:
        """``name`` is what the Function is called."""
        self.forward = forward
        self.backward = backward
        inside = {"pair": self, "__module__": __name__}
        self.function: Any = type(name, (_PairFunction,), inside)
        self.call: Call | None = None
        self._names: dict[int, list[str]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What ``forward`` gives, with a graph."""
        call, tensors = Call.of(self, args, kwargs)
        self.call = call
        found = self.function.apply(*tensors)
        return trees.join(call.output, list(found))

    def names(self, n: int) -> list[str]:
        """What the first ``n`` positional arguments are called."""
        if n not in self._names:
            self._names[n] = trees.argument_paths(self.forward, (None,) * n)
        return self._names[n]


class Call:
    """One call of a pair: where each tensor belongs."""

    def __init__(self, pair: Pair, skeleton: Any, paths: list[str]) -> None:
        """``skeleton`` is (args, kwargs) with a slot for each tensor."""
        self.pair = pair
        self.skeleton = skeleton
        self.paths = paths
        self.output: Any = None

    @classmethod
    def of(
        cls, pair: Pair, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Call, list[Tensor]]:
        """The call with these arguments, and the tensors among them."""
        leaves: list[tuple[str, Any]] = []
        parts = [
            trees.split(a, name, is_tensor, leaves)
            for a, name in zip(args, pair.names(len(args)), strict=True)
        ]
        named = {
            key: trees.split(value, key, is_tensor, leaves)
            for key, value in kwargs.items()
        }
        call = cls(pair, (tuple(parts), named), [path for path, _ in leaves])
        return call, [t for _, t in leaves]

    def run(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The tensors of the output; the rest of it is kept aside."""
        args, kwargs = trees.join(self.skeleton, list(tensors))
        leaves: list[tuple[str, Any]] = []
        result = self.pair.forward(*args, **kwargs)
        self.output = trees.split(result, "out", is_tensor, leaves)
        return tuple(t for _, t in leaves)

    def pull(self, tensors: tuple[Tensor, ...], grads: tuple[Any, ...]) -> Any:
        """What the backward gives, in the order of the tensors among the arguments.

        A result that fits neither the arguments nor the tensors is handed on as it is.
        """
        args, kwargs = trees.join(self.skeleton, list(tensors))
        ybar = trees.join(self.output, list(grads))
        found = self.pair.backward(ybar, *args, **kwargs)
        if isinstance(found, dict):
            return self._named(found)
        given = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        parts = self.skeleton[0]
        flat = all(isinstance(p, trees.Slot) for p in parts)
        if len(given) == len(tensors) and flat:
            return given
        if len(given) == len(parts):
            return self._nested(list(zip(parts, given, strict=True)))
        return _spread(given, [can_vary(t) for t in tensors]) or given

    def _named(self, found: dict[str, Any]) -> tuple[Any, ...]:
        parts, named = self.skeleton
        places = [*zip(self.pair.names(len(parts)), parts, strict=True), *named.items()]
        return self._nested(trees.by_name(places, found))

    def _nested(self, pairs: list[tuple[Any, Any]]) -> tuple[Any, ...]:
        """Gradients nested like their arguments, laid flat."""
        out: list[Any] = [None] * len(self.paths)
        for place, g in pairs:
            for slot, part in trees.aligned(place, g):
                out[slot.index] = part
        return tuple(out)


def _spread(given: tuple[Any, ...], wanted: list[bool]) -> tuple[Any, ...]:
    """One of ``given`` for each tensor that can have a gradient; () where they differ."""
    if len(given) != sum(wanted):
        return ()
    ahead = iter(given)
    return tuple(next(ahead) if want else None for want in wanted)


class _PairFunction(Function):
    """Both halves; the pair's current call knows where each tensor belongs."""

    pair: Pair

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        """The tensors of the output."""
        ctx.call = ctx._forward_cls.pair.call
        ctx.save_for_backward(*tensors)
        return ctx.call.run(tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """One gradient for each tensor."""
        return ctx.call.pull(ctx.saved_tensors, grads)


def is_pair(cls: Any) -> bool:
    """Whether a Function class stands for a raw pair."""
    return isinstance(cls, type) and issubclass(cls, _PairFunction)


def pair_of(forward: Any, backward: Any, name: str | None) -> Pair:
    """The pair, or a UsageError that says which half cannot be called."""
    if not callable(forward):
        raise UsageError(
            f"Expected a forward function but got {type(forward).__name__}, "
            f"which cannot be called."
        )
    if isinstance(forward, (type, torch.nn.Module)):
        raise UsageError(
            "vjp= goes with a plain forward function but got "
            f"{getattr(forward, '__name__', type(forward).__name__)}, "
            "which has a gradient of its own; leave vjp= out."
        )
    if not callable(backward):
        raise UsageError(
            f"Expected vjp= to be a function backward(grad_output, *inputs) but got "
            f"{type(backward).__name__}, which cannot be called."
        )
    called = name or getattr(forward, "__name__", type(forward).__name__)
    return Pair(forward, backward, str(called))
