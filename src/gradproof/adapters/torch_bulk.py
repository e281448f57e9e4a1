"""A PyTorch rule on its own tensors: nothing of its size becomes a vector."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters import torch_inspect
from gradproof.adapters.torch_compare import largest
from gradproof.adapters.torch_engines import pull
from gradproof.adapters.torch_lift import converted
from gradproof.adapters.torch_program import Program
from gradproof.adapters.torch_tensors import REAL, Spec, dense, to_tensors
from gradproof.rule import Bulk, BulkRule, Watched
from gradproof.space import Leaf, Space

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


_DTYPES = {**REAL, "int8": torch.int8}


class TorchValues(Bulk):
    """The forward alone, on tensors."""

    xp = torch

    def __init__(
        self, program: Program, domain: Space, codomain: Space, point: list[Any],
        *, recording: bool,
    ) -> None:  # fmt: skip
        """Take a program, the spaces of its inputs and outputs, and the inputs.

        ``recording``: a value needs a graph; see ``TorchPrimal``.
        """
        self.program, self.recording = program, recording
        self.domain, self.codomain, self.point = domain, codomain, point
        self._devices = {a: t.device for a, t in zip(domain, point, strict=True)}

    def value(self, xs: Sequence[Any]) -> list[Any] | None:
        """F at ``xs``; None where it failed."""
        try:
            with self.program.state, torch.set_grad_enabled(self.recording):
                leaves = [t.requires_grad_(self.recording) for t in self._leaves(xs)]
                given = {t.untyped_storage().data_ptr() for t in leaves}
                return [_apart(_real(t), given) for t in self.program(leaves)]
        except Exception:
            return None

    def _leaves(self, xs: Sequence[Any]) -> list[Tensor]:
        """The tensors that the user's code expects, for packed real ones."""
        return [
            _like(spec, leaf, x)
            for spec, leaf, x in zip(self.program.specs, self.domain, xs, strict=True)
        ]

    def array(self, leaf: Leaf, numbers: np.ndarray[Any, Any]) -> Any:
        """``numbers`` as a tensor like that of the leaf."""
        device = self._devices.get(leaf, self.point[0].device)
        shaped = torch.from_numpy(numbers.copy()).reshape(leaf.view_shape)
        return shaped.to(device=device, dtype=_DTYPES[leaf.precision])

    def empty(self, shape: tuple[int, ...], precision: str) -> Any:
        """A tensor to be written on, beside the inputs."""
        return torch.empty(shape, dtype=REAL[precision], device=self.point[0].device)

    def cast(self, a: Any, precision: str) -> Any:
        """``a`` in another precision."""
        return a.to(REAL[precision])

    def host(self, a: Any) -> np.ndarray[Any, Any]:
        """``a`` for NumPy."""
        out: np.ndarray[Any, Any] = a.cpu().numpy()
        return out

    def top(self, a: Any) -> float:
        """The largest |a|; infinite where an entry is no number."""
        return largest(a)

    def same(self, a: Any, b: Any) -> bool:
        """Whether all entries are equal."""
        return torch.equal(a, b)

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """A float64 tensor of zeros beside the inputs."""
        return torch.zeros(shape, dtype=torch.float64, device=self.point[0].device)

    def exact(self) -> Bulk | None:
        """The forward in float64, where it may be another computation."""
        program = converted(self.program, "float64")
        if program is None or all(a.precision == "float64" for a in self.domain):
            return None
        domain, codomain = (
            space.with_precision("float64") for space in (self.domain, self.codomain)
        )
        return TorchValues(
            program, domain, codomain, self.point, recording=self.recording
        )


class TorchBulk(TorchValues, BulkRule):
    """The forward and its backward, on tensors."""

    def __init__(self, rule: TorchRule) -> None:
        """Take a rule whose inputs may be moved freely."""
        primal = rule.forward
        packed = tuple(replace(s, strides=None) for s in primal.program.specs)
        point = to_tensors(primal.domain, packed, primal.point)
        super().__init__(
            primal.program, primal.domain, primal.codomain,
            [_real(t) for t in point], recording=primal.recording,
        )  # fmt: skip
        self.rule = rule
        self._graph: tuple[list[Tensor], list[Tensor]] | None = None
        self._outs: list[list[weakref.ref[Tensor]]] = []

    def at(self, point: list[Any]) -> TorchBulk:
        """The same rule at another point."""
        other = copy.copy(self)
        other.point, other._graph, other._outs = point, None, []
        return other

    def widened(self, precision: str) -> TorchBulk | None:
        """The same rule in another precision; None where it does not run."""
        wide = self.rule.in_precision(precision)
        if wide is None:
            return None
        other = TorchBulk(wide)
        other.point = [x.to(REAL[precision]) for x in self.point]
        return other

    def record(self) -> list[Any] | None:
        """Evaluate f at the point and keep its graph."""
        try:
            with self.program.state, torch.enable_grad():
                leaves = [t.clone().requires_grad_() for t in self._leaves(self.point)]
                outs = self.program(leaves)
        except Exception:
            return None
        self._graph = (outs, leaves)
        return [_real(t) for t in outs]

    def watched(self, ybars: Sequence[Any]) -> Watched:
        """The vjp at the point, with its form and every side effect."""
        seen = torch_inspect.watched(
            self.rule,
            lambda: [t.clone().requires_grad_() for t in self._leaves(self.point)],
            self._cotangents(ybars),
            again=True,
        )
        if seen.grads is None:
            return Watched(None, None, seen.form, seen.effects, seen.failure)
        self._graph = (seen.outs, seen.leaves)
        self._outs = [[weakref.ref(t) for t in seen.outs]]
        outs = [_real(t.detach()) for t in seen.outs]
        return Watched(outs, self._packed(seen.grads), seen.form, seen.effects)

    def pull(self, ybars: Sequence[Any]) -> list[Any] | None:
        """The vjp of the graph that was kept; None where it failed."""
        if self._graph is None:
            return None
        outs, leaves = self._graph
        try:
            with self.program.state, torch.enable_grad():
                grads = pull(outs, leaves, self._cotangents(ybars), retain=True)
                return self._packed(grads)
        except Exception:
            return None

    def forget(self) -> bool:
        """Let go of the graph; whether an output of each graph lives on."""
        self._graph = None
        alive = [any(t() is not None for t in outs) for outs in self._outs]
        self._outs = []
        return bool(self.rule.custom) and len(alive) > 1 and all(alive)

    def vjp(self, xs: Sequence[Any], ybars: Sequence[Any]) -> list[Any] | None:
        """The vjp at ``xs``, from a graph of its own; None where it failed."""
        try:
            with self.program.state, torch.enable_grad():
                leaves = [t.requires_grad_() for t in self._leaves(xs)]
                outs = self.program(leaves)
                self._outs.append([weakref.ref(t) for t in outs])
                grads = pull(outs, leaves, self._cotangents(ybars))
                return self._packed(grads)
        except Exception:
            return None

    def _cotangents(self, ybars: Sequence[Any]) -> list[Tensor]:
        return [
            torch.view_as_complex(y) if leaf.is_complex else y
            for leaf, y in zip(self.codomain, ybars, strict=True)
        ]

    def _packed(self, grads: Sequence[Tensor | None]) -> list[Any]:
        return [
            torch.zeros_like(x) if g is None else _real(dense(g.detach()))
            for g, x in zip(grads, self.point, strict=True)
        ]


def bulk(rule: TorchRule) -> TorchBulk | None:
    """``rule`` on its tensors; None where a leaf may not be moved freely."""
    domain = rule.forward.domain
    free = all(
        not leaf.pattern and leaf.low == -inf and leaf.high == inf for leaf in domain
    )
    dense_ = all(spec.sparse is None for spec in rule.program.specs)
    return TorchBulk(rule) if free and dense_ else None


def _real(t: Tensor) -> Tensor:
    """``t`` as a packed real tensor, its parts on a last axis where complex."""
    t = t.detach()
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj())
    return t.resolve_neg().contiguous()


def _apart(t: Tensor, given: set[int]) -> Tensor:
    """``t``, in memory of its own where it is a view of what was given."""
    return t.clone() if t.untyped_storage().data_ptr() in given else t


def _like(spec: Spec, leaf: Leaf, x: Tensor) -> Tensor:
    t = torch.view_as_complex(x) if leaf.is_complex else x
    if spec.strides is None:
        return t.detach()
    room = torch.empty_strided(
        spec.shape, spec.strides, dtype=spec.dtype, device=spec.device
    )
    return room.copy_(t)
