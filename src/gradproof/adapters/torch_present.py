"""One question to a TorchRule, presented as a way says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters import torch_graph, torch_layouts
from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_program import OutputChanged, Program, output_failure
from gradproof.adapters.torch_tensors import bits, changed, to_vector
from gradproof.rule import Reply, Way
from gradproof.space import Space, Vector
from gradproof.verdict import Effect

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule

Grads = list[Tensor | None]


class NotHere(Exception):
    """The way cannot be asked at this point; says nothing about the rule."""


def ask(rule: TorchRule, x: Vector, ybar: Vector, way: Way) -> Reply:
    """x̄ by the presentation of ``way``, with what was disturbed on the way.

    A reply without value and without failure means that the way does not apply here.
    """
    session = _Session(rule, way)
    try:
        with rule.program.state, torch.enable_grad():
            value = session.answer(x, ybar)
    except NotHere:
        return Reply(None)
    except OutputChanged as error:
        return Reply(None, output_failure(error))
    except Exception as error:
        return Reply(None, failure_of(error), effects=tuple(session.effects))
    return Reply(value, effects=tuple(session.effects))


class _Graph:
    """A forward that was run, and what it was given."""

    def __init__(self, leaves: list[Tensor], outs: list[Tensor]) -> None:
        self.leaves = leaves
        self.outs = outs
        self.before = [bits(t) for t in leaves]


class _Session:
    """The calls of one way."""

    def __init__(self, rule: TorchRule, way: Way) -> None:
        self.rule = rule
        self.how: Any = way.presentation  # type: ignore[attr-defined]
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
        return value

    def _calls(self, name: str) -> Callable[[Vector, Vector], Grads]:
        return {
            "once": self._once,
            "twice": self._twice,
            "retained": self._retained,
            "interleaved": self._interleaved,
            "after forward": self._after_forward,
            "kept": self._kept,
        }[name]

    # Each order of calls.

    def _once(self, x: Vector, ybar: Vector) -> Grads:
        if self.how.engine not in _ENGINES:
            return self._through(x, ybar)
        return self._back(self._forward(x), ybar)

    def _twice(self, x: Vector, ybar: Vector) -> Grads:
        self._back(self._forward(x), ybar)
        return self._back(self._forward(x), ybar)

    def _retained(self, x: Vector, ybar: Vector) -> Grads:
        graph = self._forward(x)
        self._back(graph, ybar, retain=True)
        return self._back(graph, ybar)

    def _interleaved(self, x: Vector, ybar: Vector) -> Grads:
        graph = self._forward(x)
        self._elsewhere(self._forward, x)
        return self._back(graph, ybar)

    def _after_forward(self, x: Vector, ybar: Vector) -> Grads:
        graph = self._forward(x)
        with torch.no_grad():
            self._elsewhere(self._forward, x)
        return self._back(graph, ybar)

    def _kept(self, x: Vector, ybar: Vector) -> Grads:
        first = self._back(self._forward(x), ybar)
        other = self._elsewhere(self._forward, x)
        self._back(other, another_cotangent(ybar))
        return first

    def _elsewhere(self, forward: Callable[[Vector], _Graph], x: Vector) -> _Graph:
        try:
            return forward(another_point(self.domain, x))
        except Exception as error:
            raise NotHere from error

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
        self.program.state.again()
        leaves = self._leaves(x)
        graph = _Graph(leaves, [])
        graph.outs = self.program(leaves)
        self._unchanged(graph)
        return graph

    def _back(self, graph: _Graph, ybar: Vector, *, retain: bool = False) -> Grads:
        cotangents = self._cotangents(ybar)
        wanted = self.how.outputs or (True,) * len(cotangents)
        before = [bits(t) for t in cotangents]
        pairs = [
            (t, c.to(t.device))
            for t, c, w in zip(graph.outs, cotangents, wanted, strict=True)
            if w and t.requires_grad
        ]
        if not pairs:
            raise NotHere
        outs, grads = [t for t, _ in pairs], [c for _, c in pairs]
        roots, places = _roots(graph.leaves)
        if not roots:
            raise NotHere
        found = _ENGINES[self.how.engine](outs, roots, grads, retain=retain)
        for t, was in zip(cotangents, before, strict=True):
            self._note("mutated-cotangent", "grad_output", changed(was, t))
        self._unchanged(graph)
        return [None if p is None else found[p] for p in places]

    def _through(self, x: Vector, ybar: Vector) -> Grads:
        """Ask by an engine that runs the forward itself."""
        from gradproof.adapters.torch_ways import through

        found = through(
            self.how.engine, self.program, self._leaves(x), self._cotangents(ybar)
        )
        return list(found)

    # What was disturbed.

    def _unchanged(self, graph: _Graph) -> None:
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


def _roots(leaves: list[Tensor]) -> tuple[list[Tensor], list[int | None]]:
    """The distinct leaves that require grad, and which of them answers for each."""
    roots: list[Tensor] = []
    places: list[int | None] = []
    seen: set[int] = set()
    for t in leaves:
        if not t.requires_grad or id(t) in seen:
            places.append(None)
            continue
        seen.add(id(t))
        places.append(len(roots))
        roots.append(t)
    return roots, places


def another_point(domain: Space, x: Vector) -> Vector:
    """A point near ``x`` where every entry differs and every sign is kept."""
    moved = np.where(x == 0, 0.25, 0.75 * x)
    return domain.snap(np.clip(moved, domain.lows(), domain.highs()))


def another_cotangent(ybar: Vector) -> Vector:
    """A cotangent that differs from ``ybar`` in every entry."""
    return -2.0 * ybar - 1.0


Engine = Callable[..., Grads]  # (outs, roots, grads, *, retain)


def _by_grad(
    outs: list[Tensor], roots: list[Tensor], grads: list[Tensor], *, retain: bool
) -> Grads:
    return list(
        torch.autograd.grad(outs, roots, grads, retain_graph=retain, allow_unused=True)
    )


def _by_create_graph(
    outs: list[Tensor], roots: list[Tensor], grads: list[Tensor], *, retain: bool
) -> Grads:
    found: Any = torch.autograd.grad(
        outs, roots, grads, create_graph=True, allow_unused=True
    )
    return [None if g is None else g.detach() for g in found]


def _by_backward(
    outs: list[Tensor], roots: list[Tensor], grads: list[Tensor], *, retain: bool
) -> Grads:
    """Through ``.backward()``, which also reaches leaves that are not ours.

    Their ``.grad`` is put aside meanwhile, and given back untouched.
    """
    theirs = [
        n.variable for n in torch_graph.nodes(outs) if hasattr(n, "variable")
    ]  # fmt: skip
    aside = [(t, t.grad) for t in theirs]
    try:
        for t in (*theirs, *roots):
            t.grad = None
        torch.autograd.backward(outs, grads, retain_graph=retain)
        return [t.grad for t in roots]
    finally:
        for t in roots:
            t.grad = None
        for t, kept in aside:
            t.grad = kept


_ENGINES: dict[str, Engine] = {
    "grad": _by_grad,
    "backward": _by_backward,
    "create_graph": _by_create_graph,
}
