"""One vjp, watched: what was entered, what came back raw, and what was disturbed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradproof.adapters import torch_graph
from gradproof.adapters.failures import failure_of
from gradproof.adapters.randomness import drawn
from gradproof.adapters.torch_engines import pull
from gradproof.adapters.torch_hooks import watching
from gradproof.adapters.torch_program import OutputChanged, output_failure
from gradproof.adapters.torch_tensors import bits, changed, to_vector
from gradproof.adapters.torch_watch import Watch, numbered
from gradproof.adapters.torch_ways import seen_to_draw
from gradproof.rule import Reply
from gradproof.space import Vector
from gradproof.verdict import Effect, Failure, Form

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


@dataclass(frozen=True, eq=False)
class Seen:
    """What one watched vjp gave; ``grads`` is None where it failed."""

    form: Form | None
    effects: tuple[Effect, ...]
    failure: Failure | None = None
    grads: list[Tensor | None] | None = None
    outs: list[Tensor] = field(default_factory=list)
    leaves: list[Tensor] = field(default_factory=list)


def inspect(rule: TorchRule, x: Vector, ybar: Vector) -> Reply:
    """The plain vjp of ``rule`` with its form and effects filled."""
    seen = watched(rule, lambda: rule.leaves(x), rule.cotangents(ybar))
    value = None
    if seen.grads is not None:
        value = to_vector(rule.forward.domain, seen.grads)
    return Reply(value, seen.failure, seen.form, seen.effects)


def watched(
    rule: TorchRule,
    fresh: Callable[[], list[Tensor]],
    cotangents: list[Tensor],
    *,
    again: bool = False,
) -> Seen:
    """One vjp at ``fresh()`` leaves, looked at from all sides.

    ``again``: the graph is kept to be asked again, and whether graphs leak is left to
    whoever asks.
    """
    watch = Watch(rule.expected_entry)
    try:
        with (
            rule.program.state.watched(),
            torch.enable_grad(),
            watching(watch.on_apply, watch.on_backward),
        ):
            seen = _run(rule, watch, fresh(), cotangents, keep=again)
        for path in () if again else leaked(rule, fresh):
            watch.note("leaked-graph", path, "alive after the graph was dropped")
    except OutputChanged as error:
        return Seen(None, (), output_failure(error))
    except Exception as error:
        form = _form(rule, watch)
        return Seen(form, tuple(watch.effects), failure_of(error))
    return replace(seen, effects=tuple(watch.effects))


def _form(rule: TorchRule, watch: Watch, **more: Any) -> Form:
    return Form(
        entered=tuple(watch.entered),
        expected_entry=rule.expected_entry,
        returned=watch.returned,
        arity=watch.arity,
        saw=watch.saw,
        cuts=watch.cuts.places,
        bypassed=rule.bypassed,
        **more,
    )


def _run(
    rule: TorchRule,
    watch: Watch,
    leaves: list[Tensor],
    cotangents: list[Tensor],
    *,
    keep: bool,
) -> Seen:
    domain, state = rule.forward.domain, rule.program.state
    for leaf, t in zip(domain, leaves, strict=True):
        watch.know(leaf.path, t)
    before = [bits(t) for t in leaves]
    still = state.read()
    with watch.cuts:
        outs = rule.program(leaves)
    seen_to_draw(rule.program, drew=bool(drawn(still, state.read())))
    graph = torch_graph.nodes(outs)
    watch.on_compiled(graph)
    connected = torch_graph.reached(graph, outs, leaves)
    given = [bits(t) for t in cotangents]
    _disturbed(rule, watch, leaves, before)
    random = state.read()
    grads = pull(outs, leaves, cotangents, retain=keep)
    sources = drawn(random, state.read())
    for i, (t, was) in enumerate(zip(cotangents, given, strict=True)):
        watch.note("mutated-cotangent", numbered(i, len(given)), changed(was, t))
    _disturbed(rule, watch, leaves, before)
    if sources:
        watch.note("draws-in-backward", "backward", "from " + ", ".join(sources))
    form = _form(
        rule,
        watch,
        graph=any(connected),
        unused=tuple(
            leaf.path for leaf, g in zip(domain, grads, strict=True) if g is None
        ),
        detached=tuple(
            out.path
            for out, t in zip(rule.program.outs, outs, strict=True)
            if not t.requires_grad
        ),
    )
    return Seen(form, (), None, grads, outs, leaves)


def _disturbed(
    rule: TorchRule, watch: Watch, leaves: list[Tensor], before: list[Tensor]
) -> None:
    """Note the inputs whose numbers changed, unless that was noted already."""
    for leaf, t, was in zip(rule.forward.domain, leaves, before, strict=True):
        if not any(e.subject == leaf.path for e in watch.effects):
            watch.note("mutated-input", leaf.path, changed(was, t))


def leaked(rule: TorchRule, fresh: Callable[[], list[Tensor]]) -> tuple[str, ...]:
    """The outputs that outlive their graph, so that memory grows with every call.

    Two forwards are made and forgotten. A cache holds one output at most; an output
    that its own ctx holds is part of a circle, and waits for Python's collector, which
    counts objects and not their memory.
    """
    if not rule.custom:
        return ()
    collecting = gc.isenabled()
    gc.disable()
    try:
        first, second = _forgotten(rule, fresh), _forgotten(rule, fresh)
        return tuple(
            out.path
            for out, a, b in zip(rule.program.outs, first, second, strict=True)
            if a() is not None and b() is not None and a() is not b()
        )
    finally:
        if collecting:
            gc.enable()


def _forgotten(
    rule: TorchRule, fresh: Callable[[], list[Tensor]]
) -> list[weakref.ref[Tensor]]:
    """Weak references to the outputs of a forward that nobody holds any more."""
    with rule.program.state, torch.enable_grad():
        return [weakref.ref(t) for t in rule.program(fresh())]
