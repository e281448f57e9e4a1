"""The user's callable as a map from a list of tensors to a list of tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters import trees
from gradproof.adapters.torch_state import State
from gradproof.adapters.torch_tensors import (
    Spec,
    can_vary,
    dressed,
    is_tensor,
)
from gradproof.verdict import Failure


class OutputChanged(Exception):
    """The output has another structure, shape or dtype than at the point."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a module: every place that holds it, and its leaf."""

    holders: tuple[tuple[dict[str, Any], str], ...]
    index: int


@dataclass(frozen=True)
class Out:
    """What one output leaf must look like."""

    path: str
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Program:
    """A callable with all its arguments but the leaves that vary.

    ``skeleton`` is (args, kwargs) with a slot for each tensor. A slot below
    ``len(slots)`` is looked up in ``slots``: an index into the varied tensors, or a
    tensor that stays as it is (and is copied for each call). ``unasked`` are outputs
    that have no gradient and are meant to have none.
    """

    call: Callable[..., Any]
    skeleton: Any
    slots: tuple[int | Tensor, ...]
    specs: tuple[Spec, ...]
    state: State
    parameters: tuple[Parameter, ...] = ()
    outs: tuple[Out, ...] = ()
    copies: bool = False
    reset: Callable[[], Any] | None = None
    unasked: frozenset[str] = frozenset()

    def arguments(
        self, tensors: list[Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with ``tensors`` in their places."""
        filled = []
        for slot in self.slots:
            if isinstance(slot, Tensor):
                filled.append(slot.detach().clone())
            else:
                filled.append(self._dress(slot, tensors[slot]))
        args, kwargs = trees.join(self.skeleton, filled)
        if self._holds_arrays:
            return _copied(args), _copied(kwargs)
        return args, kwargs

    @cached_property
    def _holds_arrays(self) -> bool:
        return any(isinstance(a, np.ndarray) for _, a in trees.walk(self.skeleton))

    def _dress(self, index: int, t: Tensor) -> Tensor:
        """What the user's code sees for a leaf: not itself, where it writes on it."""
        t = dressed(self.specs[index], t)
        if self.copies and t.requires_grad:
            return t.clone()
        return t

    def raw(self, tensors: list[Tensor]) -> Any:
        """The user's own result at ``tensors``."""
        if self.reset is not None:
            self.reset()
        args, kwargs = self.arguments(tensors)
        if not self.parameters:
            return self.call(*args, **kwargs)
        put: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for parameter in self.parameters:
                for holder, key in parameter.holders:
                    put.append((holder, key, holder[key]))
                    holder[key] = self._dress(parameter.index, tensors[parameter.index])
            return self.call(*args, **kwargs)
        finally:
            for holder, key, original in reversed(put):
                holder[key] = original

    def outputs(self, tensors: list[Tensor]) -> list[tuple[str, Tensor]]:
        """The real and complex tensors in the result that are asked, by path."""
        found = outputs_of(self.raw(tensors))
        return [(path, t) for path, t in found if path not in self.unasked]

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        """The varying leaves of the result, as at the point."""
        leaves = self.outputs(tensors)
        if len(leaves) != len(self.outs):
            raise OutputChanged(
                f"{_outputs(len(leaves))} here but {_outputs(len(self.outs))} "
                f"at the point"
            )
        for (path, t), out in zip(leaves, self.outs, strict=True):
            if tuple(t.shape) != out.shape:
                raise OutputChanged(
                    f"{path} has shape {tuple(t.shape)} here but {out.shape} "
                    f"at the point"
                )
            if t.dtype != out.dtype:
                raise OutputChanged(
                    f"{path} has dtype {t.dtype} here but {out.dtype} at the point"
                )
        return [t for _, t in leaves]

    def with_outs(self, leaves: list[tuple[str, Tensor]]) -> Program:
        """The same, its outputs known."""
        outs = tuple(Out(p, tuple(t.shape), t.dtype) for p, t in leaves)
        return replace(self, outs=outs)


def outputs_of(result: Any) -> list[tuple[str, Tensor]]:
    """The real and complex tensors in a result, by path."""
    leaves: list[tuple[str, Any]] = []
    trees.split(result, "out", is_tensor, leaves)
    # What is not strided is read as its users read it: made dense, by a step of the
    # graph whose backward hands back what that layout takes.
    return [
        (path, t if t.layout is torch.strided else t.to_dense())
        for path, t in leaves
        if can_vary(t)
    ]


def _outputs(n: int) -> str:
    return trees.counted(n, "floating-point output")


def _copied(thing: Any) -> Any:
    """``thing`` with its NumPy arrays copied, so that the user's are never written."""
    if isinstance(thing, np.ndarray):
        return thing.copy()
    if isinstance(thing, tuple) and not hasattr(thing, "_fields"):
        return tuple(_copied(item) for item in thing)
    if type(thing) is dict:
        return {key: _copied(item) for key, item in thing.items()}
    return thing


def output_failure(error: OutputChanged) -> Failure:
    """A change of the output as a failure of the call."""
    return Failure(kind="OutputChanged", message=str(error))
