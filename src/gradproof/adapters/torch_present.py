"""One question to a TorchRule, presented as a way says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradproof.adapters import torch_layouts
from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_autocast import NotUnderAutocast
from gradproof.adapters.torch_engines import (
    ELSEWHERE,
    GRAD,
    Grads,
    Refused,
    elsewhere,
    other_cotangents,
    pull,
    through,
)
from gradproof.adapters.torch_presentation import (
    AFTER_FORWARD,
    INTERLEAVED,
    KEPT,
    ONCE,
    RETAINED,
    TWICE,
    TorchWay,
    in_memory,
)
from gradproof.adapters.torch_program import OutputChanged, Program, output_failure
from gradproof.adapters.torch_tensors import bits, changed, to_vector
from gradproof.rule import Reply, Way
from gradproof.space import Space, Vector
from gradproof.verdict import Effect

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


class NotHere(Exception):
    """The way cannot be asked at this point; says nothing about the rule."""


def ask(rule: TorchRule, x: Vector, ybar: Vector, way: Way) -> Reply:
    """x̄ by the presentation of ``way``, with what was disturbed on the way.

    A reply without value and without failure means that the way does not apply here.
    """
    if not isinstance(way, TorchWay):
        return Reply(None)
    asking = _Asking(rule, way)
    try:
        with rule.program.state, torch.enable_grad():
            value = asking.answer(x, ybar)
    except (NotHere, NotUnderAutocast, Refused):
        return Reply(None)
    except OutputChanged as error:
        return Reply(None, output_failure(error))
    except Exception as error:
        return Reply(None, failure_of(error), effects=tuple(asking.effects))
    return Reply(value, effects=tuple(asking.effects))


class _Graph:
    """A forward that was run, and what it was given."""

    def __init__(self, leaves: list[Tensor]) -> None:
        self.leaves = leaves
        self.outs: list[Tensor] = []
        self.before = [bits(t) for t in leaves]


class _Asking:
    """The calls of one way."""

    def __init__(self, rule: TorchRule, way: TorchWay) -> None:
        self.rule = rule
        self.how = way.presentation
        self.effects: list[Effect] = []
        self.presented: list[tuple[str, Tensor]] = []

    @property
    def program(self) -> Program:
        return self.rule.program

    @property
    def domain(self) -> Space:
        return self.rule.forward.domain

    def answer(self, x: Vector, ybar: Vector) -> Vector:
        """x̄ in the flat domain."""
        grads = self._calls(self.how.calls)(x, ybar)
        value = to_vector(self.domain, grads)
        self._guards()
        return in_memory(self.domain, self.how, value)

    def _calls(self, name: str) -> Callable[[Vector, Vector], Grads]:
        return {
            ONCE: self._once,
            TWICE: self._twice,
            RETAINED: self._retained,
            INTERLEAVED: self._interleaved,
            AFTER_FORWARD: self._after_forward,
            KEPT: self._kept,
        }[name]

    # Each order of calls.

    def _once(self, x: Vector, ybar: Vector) -> Grads:
        if self.how.engine != GRAD:
            return self._through(x, ybar)
        return self._back(self._forward(x), ybar)

    def _twice(self, x: Vector, ybar: Vector) -> Grads:
        graph = self._forward(x)
        self._back(graph, ybar)
        # The same tensors again, as the parameters of a training loop are.
        return self._back(self._run(graph.leaves), ybar)

    def _retained(self, x: Vector, ybar: Vector) -> Grads:
        graph = self._forward(x)
        self._back(graph, ybar, retain=True)
        return self._back(graph, ybar)

    def _interleaved(self, x: Vector, ybar: Vector) -> Grads:
        graph = self._forward(x)
        other = self._elsewhere(x)
        grads = self._back(graph, ybar)
        del other  # alive until here
        return grads

    def _after_forward(self, x: Vector, ybar: Vector) -> Grads:
        graph = self._forward(x)
        with torch.no_grad():
            self._elsewhere(x, grad=False)
        return self._back(graph, ybar)

    def _kept(self, x: Vector, ybar: Vector) -> Grads:
        first = self._back(self._forward(x), ybar)
        other = self._elsewhere(x)
        pull(other.outs, other.leaves, other_cotangents(self.rule.cotangents(ybar)))
        return first

    def _elsewhere(self, x: Vector, *, grad: bool = True) -> _Graph:
        """The forward at another point, the first that the function takes."""
        tensors = self.rule.forward.tensors(x)
        needs = self.how.needs or (True,) * len(tensors)
        for flip, scale in ELSEWHERE:
            moved = elsewhere(tensors, flip=flip, scale=scale)
            leaves = [
                t.requires_grad_(grad and need)
                for t, need in zip(moved, needs, strict=True)
            ]
            try:
                return self._run(leaves)
            except Exception as error:
                refused = error
        raise NotHere from refused

    # One forward, one backward.

    def _leaves(self, x: Vector) -> list[Tensor]:
        tensors = self.rule.forward.tensors(x)
        needs = self.how.needs or (True,) * len(tensors)
        out = self._presented(self.domain, tensors, self.how.inputs)
        for t, need in zip(out, needs, strict=True):
            t.requires_grad_(need)
        if self.how.alias is not None:
            first, second = self.how.alias
            out[second] = out[first]
        return out

    def _cotangents(self, ybar: Vector) -> list[Tensor]:
        codomain = self.rule.forward.codomain
        return self._presented(
            codomain, self.rule.cotangents(ybar), self.how.cotangent, "grad_output"
        )

    def _presented(
        self, space: Space, tensors: list[Tensor], spec: str, name: str = ""
    ) -> list[Tensor]:
        """``tensors`` between guards, laid out as ``spec`` where that is possible."""
        out = []
        layouts = torch_layouts.layouts_of(spec, len(tensors))
        for leaf, t, layout in zip(space, tensors, layouts, strict=True):
            possible = torch_layouts.applicable(leaf, layout)
            out.append(
                torch_layouts.present(
                    t, layout if possible else torch_layouts.CONTIGUOUS
                )
            )
            self.presented.append((name or leaf.path, out[-1]))
        return out

    def _forward(self, x: Vector) -> _Graph:
        return self._run(self._leaves(x))

    def _run(self, leaves: list[Tensor]) -> _Graph:
        self.program.state.again()
        graph = _Graph(leaves)
        graph.outs = self.program(leaves)
        self._unchanged(graph)
        return graph

    def _back(self, graph: _Graph, ybar: Vector, *, retain: bool = False) -> Grads:
        cotangents = self._cotangents(ybar)
        used = self.how.outputs or (True,) * len(cotangents)
        before = [bits(t) for t in cotangents]
        grads = pull(
            graph.outs,
            graph.leaves,
            [c if u else None for c, u in zip(cotangents, used, strict=True)],
            retain=retain,
        )
        for t, was in zip(cotangents, before, strict=True):
            self._note("mutated-cotangent", "grad_output", changed(was, t))
        self._unchanged(graph)
        return grads

    def _through(self, x: Vector, ybar: Vector) -> Grads:
        """Ask by an engine that runs the forward itself."""
        return through(
            self.how.engine,
            self.program,
            self._leaves(x),
            self._cotangents(ybar),
            self.effects,
        )

    # What was disturbed.

    def _unchanged(self, graph: _Graph) -> None:
        if self.program.copies:
            return  # a function that writes on its inputs, and says so
        for leaf, t, was in zip(self.domain, graph.leaves, graph.before, strict=True):
            self._note("mutated-input", leaf.path, changed(was, t))

    def _guards(self) -> None:
        for path, t in self.presented:
            self._note("out-of-bounds", path, torch_layouts.outside(t))

    def _note(self, slug: str, subject: str, detail: str) -> None:
        if detail and not any(
            e.slug == slug and e.subject == subject for e in self.effects
        ):
            self.effects.append(Effect(slug, subject, detail))
