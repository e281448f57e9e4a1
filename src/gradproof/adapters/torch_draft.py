"""The arguments of a PyTorch callable, sorted into what varies and what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from gradproof.adapters import trees
from gradproof.adapters.describe import bounds_of, pattern_of
from gradproof.adapters.torch_callee import Callee, is_generator
from gradproof.adapters.torch_program import Parameter, Program
from gradproof.adapters.torch_state import State
from gradproof.adapters.torch_tensors import (
    Spec,
    can_vary,
    is_tensor,
    overlaps,
    to_vector,
)
from gradproof.errors import UsageError
from gradproof.space import Space, Vector


class Draft:
    """The arguments, sorted into what varies and what stays."""

    def __init__(
        self, callee: Callee, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Sort them; a UsageError where nothing is left to vary."""
        self.callee = callee
        self.notes: list[str] = []
        self.slots: list[int | Tensor] = []
        self.varied: list[tuple[str, Tensor]] = []
        paths = trees.argument_paths(callee.signature, args, callee.skip)
        leaves: list[tuple[str, Any]] = []
        parts = [
            trees.split(arg, path, is_tensor, leaves)
            for arg, path in zip(args, paths, strict=True)
        ]
        named = {
            key: trees.split(value, key, is_tensor, leaves)
            for key, value in kwargs.items()
        }
        self.skeleton = (tuple(parts), named)
        self.plain = [
            item
            for arg, path in [*zip(args, paths, strict=True),
                              *((v, k) for k, v in kwargs.items())]
            for item in trees.walk(arg, path)
            if not is_tensor(item[1])
        ]  # fmt: skip
        self._sort(leaves)
        self.count = len(self.varied)  # of these, before the parameters
        self.parameters = self._parameters()
        if not self.varied:
            raise UsageError(_nothing_to_vary(callee, leaves, self.plain))

    def _sort(self, leaves: list[tuple[str, Tensor]]) -> None:
        asked = any(t.requires_grad and can_vary(t) for _, t in leaves)
        for path, t in leaves:
            _demand_numbers(path, t)
            if not can_vary(t) or (asked and not t.requires_grad):
                self.slots.append(t)
                continue
            if overlaps(t):
                self.notes.append(
                    f"{path} is expanded or overlaps itself in memory; "
                    f"it was copied to memory of its own"
                )
            self.slots.append(len(self.varied))
            self.varied.append((path, t))

    def _parameters(self) -> tuple[Parameter, ...]:
        module = self.callee.module
        if module is None:
            return ()
        places: dict[int, tuple[str, Tensor, list[tuple[dict[str, Any], str]]]] = {}
        for prefix, owner in module.named_modules():
            if not isinstance(owner._parameters, dict):  # a ScriptModule's are in C++
                if not prefix:
                    self.notes.append(
                        "the parameters were left out: "
                        "those of a ScriptModule cannot be replaced"
                    )
                continue
            for key, t in owner._parameters.items():
                if t is None or not t.requires_grad or not can_vary(t):
                    continue
                path = f"{prefix}.{key}" if prefix else key
                _demand_numbers(path, t)
                entry = places.setdefault(id(t), (path, t, []))
                entry[2].append((owner._parameters, key))
        out = []
        taken = {path for path, _ in self.varied}
        for path, t, holders in places.values():
            out.append(Parameter(tuple(holders), len(self.varied)))
            self.varied.append((trees.unique([path], taken)[0], t))
        return tuple(out)

    def program(self, reset: Callable[[], Any] | None) -> tuple[Program, Space, Vector]:
        """The program of the callee, what its leaves are, and their numbers."""
        specs = tuple(Spec.of(t) for _, t in self.varied)
        domain = Space.of(
            [
                s.leaf(p, *bounds_of(t), pattern_of(t))
                for s, (p, t) in zip(specs, self.varied, strict=True)
            ]
        )
        values: list[Tensor | None] = [
            s.sparse.values() if s.sparse is not None else t
            for s, (_, t) in zip(specs, self.varied, strict=True)
        ]
        generators = [(p, g) for p, g in self.plain if is_generator(g)]
        state = State([*generators, *self.callee.generators], self.callee.uses)
        program = Program(
            self.callee.call, self.skeleton, tuple(self.slots), specs, state,
            self.parameters, reset=reset,
        )  # fmt: skip
        return program, domain, to_vector(domain, values)


def _demand_numbers(path: str, t: Tensor) -> None:
    """Raises UsageError where ``t`` holds no numbers one by one."""
    if torch.nn.parameter.is_lazy(t):
        raise UsageError(
            f"{path} is not initialised yet, so it has no numbers to vary; call the "
            "module once before it is checked"
        )
    if missing := _without_numbers(t):
        raise UsageError(
            f"{path} is {missing}, and a tensor that holds numbers one by one "
            "was expected; pass an ordinary tensor of the same values"
        )


def _without_numbers(t: Tensor) -> str:
    """What ``t`` is, where it has no numbers that could be read or moved; or ""."""
    if t.layout is torch._mkldnn:  # type: ignore[attr-defined]
        return "an mkldnn tensor"
    if t.device.type == "meta" or isinstance(t, FakeTensor):
        return "on the meta device" if t.device.type == "meta" else "a fake tensor"
    return "a nested tensor" if t.is_nested else ""


def _nothing_to_vary(
    callee: Callee, leaves: list[tuple[str, Tensor]], plain: list[tuple[str, Any]]
) -> str:
    got = [f"{p}: {str(t.dtype).removeprefix('torch.')}" for p, t in leaves]
    got += [f"{p}: {type(v).__name__}" for p, v in plain]
    given = ", ".join(got) if got else "no arguments"
    return (
        f"{callee.name} was given no floating-point tensor ({given}), so there is "
        f"nothing to differentiate by; pass at least one float or complex tensor."
    )
