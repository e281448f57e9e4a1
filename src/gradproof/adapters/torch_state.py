"""What a call may disturb outside its own tensors, and how it is put back."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from gradproof.adapters import randomness
from gradproof.adapters.failures import told
from gradproof.adapters.randomness import Source, same


def _cpu() -> Source:
    cpu = torch.default_generator
    return Source("torch", cpu.get_state, cpu.set_state)


def _generator(thing: Any, path: str) -> Source | None:
    if isinstance(thing, torch.Generator):
        return Source(path, thing.get_state, thing.set_state)
    return randomness.source_of(thing, path)


def _accelerators() -> list[Source]:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return [
        Source(
            f"cuda:{i}",
            functools.partial(torch.cuda.get_rng_state, i),
            functools.partial(torch.cuda.set_rng_state, device=i),
        )
        for i in range(torch.cuda.device_count())
    ]


class Modules:
    """Buffers, tensor attributes and training flags of the modules that a call uses."""

    def __init__(self, roots: Iterable[torch.nn.Module]) -> None:
        """Gather every module below ``roots``."""
        seen: dict[int, torch.nn.Module] = {}
        for root in roots:
            for module in root.modules():
                seen[id(module)] = module
        self._modules = list(seen.values())
        self._saved: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._content: list[tuple[Tensor, Tensor]] = []

    def save(self) -> None:
        """Remember everything as it is now."""
        self._saved = []
        self._content = []
        for module in self._modules:
            held = list(module.buffers(recurse=False))
            for holder in (module.__dict__, module._buffers):
                if isinstance(holder, dict):  # those of a ScriptModule are in C++
                    self._saved.append((holder, dict(holder)))
            held += [v for v in module.__dict__.values() if isinstance(v, Tensor)]
            self._content += [(t, t.detach().clone()) for t in held]

    def restore(self) -> None:
        """Put everything back to what it was at ``save``."""
        for holder, kept in self._saved:
            for key in [k for k in holder if k not in kept]:
                if isinstance(holder[key], Tensor):
                    del holder[key]
            for key, value in kept.items():
                now = holder.get(key)
                if now is not value and (_is_state(value) or _is_state(now)):
                    holder[key] = value
        for tensor, content in self._content:
            # Not by the version counter: batch_norm updates its statistics past it.
            if not torch.equal(tensor, content):
                # Past it as well: a graph that is alive must not see a change.
                tensor.data.copy_(content)


def _is_state(value: Any) -> bool:
    """Whether an attribute holds tensors, references or a flag."""
    if isinstance(value, (Tensor, bool)):
        return True
    if isinstance(value, (list, tuple)):
        # Recurrent modules keep their weights in one list and references to them in
        # another: both go back, or the weights are taken for unchanged.
        return any(isinstance(item, (Tensor, weakref.ref)) for item in value)
    return False


class State:
    """Everything outside the tensors of a call, held still while the call runs.

    Used as a context manager: on entry the user's state is saved, and the random state
    set to what it was when this object was made (so that a function which draws is a
    function); on exit, also by an exception, the user's is put back. Not re-entrant.

    The random state of NumPy and of Python is costly to move, so that lean calls leave
    it alone unless a ``watched`` one saw it being drawn from.
    """

    def __init__(
        self,
        generators: Iterable[tuple[str, Any]] = (),
        modules: Iterable[torch.nn.Module] = (),
    ) -> None:
        """Take the random state as it is now for the state of every call."""
        given = [_generator(thing, path) for path, thing in generators]
        self._always = [_cpu(), *_accelerators(), *[g for g in given if g is not None]]
        self._seldom = [randomness.legacy_numpy(), randomness.python()]
        self._start = [(s, s.read()) for s in self._always]
        self._seldom_start = [(s, s.read()) for s in self._seldom]
        self._roots = tuple(modules)
        self._modules = Modules(self._roots)
        self._watched = False
        self._saved: list[tuple[Source, Any]] = []
        self._flags: tuple[Any, ...] = ()

    def also(self, modules: Iterable[torch.nn.Module]) -> State:
        """A state like this one, with the same beginning, for more modules."""
        other = copy.copy(self)
        other._roots = (*self._roots, *modules)
        other._modules = Modules(other._roots)
        for name in ("_always", "_seldom", "_start", "_seldom_start"):
            setattr(other, name, list(getattr(self, name)))
        return other

    def watched(self) -> State:
        """The same, for one call that looks at every source of random numbers."""
        self._watched = True
        return self

    def __enter__(self) -> State:
        """Save the user's state and set our own."""
        if self._watched:
            self._saved = [(s, s.read()) for s in (*self._always, *self._seldom)]
            for source, state in self._seldom_start:
                source.write(state)
        else:
            self._saved = [(s, s.read()) for s, _ in self._start]
        for source, state in self._start:
            source.write(state)
        self._flags = (
            torch.is_grad_enabled(),
            torch.get_default_dtype(),
            torch.get_num_threads(),
        )
        self._modules.save()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the user's state back."""
        if self._watched:
            self._watched = False
            self._learn()
        self._modules.restore()
        grad, dtype, threads = self._flags
        torch.set_grad_enabled(grad)
        if torch.get_default_dtype() is not dtype:
            torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        for source, state in self._saved:
            source.write(state)
        told(error)

    def _learn(self) -> None:
        """Follow a seldom-used source at every call once it was drawn from."""
        for source, state in list(self._seldom_start):
            if not same(state, source.read()):
                self._seldom.remove(source)
                self._seldom_start.remove((source, state))
                self._always.append(source)
                self._start.append((source, state))

    def read(self) -> list[tuple[str, Any]]:
        """The random state now, of every source, by name."""
        return [(s.name, s.read()) for s in (*self._always, *self._seldom)]

    def again(self) -> None:
        """Begin another call inside this one: everything as at the first."""
        self.rewind()
        self._modules.restore()

    def rewind(self) -> None:
        """Set the random state to that of the beginning of a call."""
        for source, state in self._start:
            source.write(state)
