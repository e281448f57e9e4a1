"""One vjp, watched: what was entered, what came back raw, and what was disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradproof.adapters import torch_graph, trees
from gradproof.adapters.failures import failure_of
from gradproof.adapters.randomness import drawn
from gradproof.adapters.torch_callee import is_new_style
from gradproof.adapters.torch_hooks import watching
from gradproof.adapters.torch_pair import is_pair
from gradproof.adapters.torch_program import OutputChanged, output_failure
from gradproof.adapters.torch_source import display_name, operator_forward
from gradproof.adapters.torch_tensors import bits, changed, to_vector
from gradproof.rule import Reply
from gradproof.space import Vector
from gradproof.verdict import Effect, Form, Returned

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


class Watch:
    """What was seen during one forward and backward."""

    def __init__(self, rule: TorchRule) -> None:
        """Watch for the backward that ``rule`` is about."""
        self.rule = rule
        self.entered: list[str] = []
        self.returned: tuple[Returned, ...] = ()
        self.arity: tuple[int, int] | None = None
        self.saw = ""
        self.effects: list[Effect] = []
        self.applied: dict[int, tuple[Any, tuple[Any, ...]]] = {}

    def on_apply(self, cls: Any, args: Any, kwargs: Any, original: Any) -> Any:
        """Remember what each node was applied to."""
        out = original(*args, **kwargs)
        first = out[0] if isinstance(out, (tuple, list)) and out else out
        node = getattr(first, "grad_fn", None)
        if node is not None:
            self.applied[id(node)] = (node, args)
        return out

    def on_backward(self, node: Any, grads: tuple[Any, ...], original: Any) -> Any:
        """Look at one custom backward from both sides."""
        name = display_name(node._forward_cls)
        self.entered.append(name)
        flat = [g for g in _flat(grads) if isinstance(g, Tensor)]
        before = [bits(g) for g in flat]
        saved = _saved(node)
        kept = [None if t is None else bits(t) for t in saved]
        result = original(*grads)
        for i, (g, was) in enumerate(zip(flat, before, strict=True)):
            self._note(
                "mutated-cotangent", _numbered("grad_output", i, len(flat)), was, g
            )
        for i, (s, then) in enumerate(zip(saved, kept, strict=True)):
            if s is not None and then is not None:
                self._note("mutated-input", f"saved tensor {i}", then, s)
        if name == self.rule.expected_entry and not self.saw:
            self.saw = _described(flat)
            self._form(node, result)
        return result

    def _form(self, node: Any, result: Any) -> None:
        raw = result if isinstance(result, tuple) else (result,)
        _, args = self.applied.get(id(node), (None, ()))
        needs = tuple(node.needs_input_grad)
        if operator_forward(node._forward_cls) is not None:
            # Generated Functions carry one more argument of PyTorch's own.
            raw, needs = raw[:-1], needs[:-1]
        if is_pair(node._forward_cls):  # and pairs one of ours
            raw, needs, args = raw[1:], needs[1:], args[1:]
        expected = len(needs)
        while len(raw) > expected and raw[-1] is None:
            raw = raw[:-1]
        if len(raw) != expected:
            self.arity = (len(raw), expected)
        paths = (
            node.call.paths
            if is_pair(node._forward_cls)
            else parameter_names(node._forward_cls, len(needs))
        )
        self.returned = tuple(
            _returned(
                paths[i],
                raw[i],
                args[i] if i < len(args) else None,
                needed=bool(needs[i]),
            )
            for i in range(min(len(raw), expected))
        )

    def _note(self, slug: str, subject: str, before: Tensor, now: Tensor) -> None:
        detail = changed(before, now)
        if detail and not any(e.subject == subject for e in self.effects):
            self.effects.append(Effect(slug, subject, detail))


def parameter_names(cls: Any, n: int) -> list[str]:
    """What the ``n`` arguments of a Function's forward are called."""
    skip = 0 if is_new_style(cls) else 1
    forward = operator_forward(cls) or cls.forward
    if forward is not cls.forward:
        skip = 0
    return trees.argument_paths(forward, (None,) * n, skip)


def _flat(grads: Any) -> list[Any]:
    if isinstance(grads, (tuple, list)):
        return [item for g in grads for item in _flat(g)]
    return [grads]


def _numbered(name: str, i: int, n: int) -> str:
    return name if n == 1 else f"{name}[{i}]"


def _saved(node: Any) -> list[Tensor | None]:
    try:
        return list(node.saved_tensors)
    except RuntimeError:
        # A saved tensor that was modified since raises in the backward too, where it
        # is the user's own failure.
        return []


def _described(grads: list[Tensor]) -> str:
    mode = "grad mode on" if torch.is_grad_enabled() else "grad mode off"
    parts = [
        f"strides {tuple(g.stride())}, offset {g.storage_offset()}"
        for g in grads
        if g.layout is torch.strided
    ]
    return "; ".join([*parts, mode])


def _dtype(t: Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")


def _returned(path: str, got: Any, given: Any, *, needed: bool) -> Returned:
    expected: dict[str, Any] = {}
    if isinstance(given, Tensor):
        expected = {
            "expected_shape": tuple(given.shape),
            "expected_dtype": _dtype(given),
            "expected_device": str(given.device),
        }
    if not isinstance(got, Tensor):
        return Returned(path, got is None, needed=bool(needed), **expected)
    return Returned(
        path,
        is_none=False,
        shape=tuple(got.shape),
        dtype=_dtype(got),
        device=str(got.device),
        needed=bool(needed),
        **expected,
    )


def inspect(rule: TorchRule, x: Vector, ybar: Vector) -> Reply:
    """The plain vjp of ``rule`` with its form and effects filled."""
    watch = Watch(rule)
    try:
        with (
            rule.program.state.watched(),
            torch.enable_grad(),
            watching(watch.on_apply, watch.on_backward),
        ):
            value, form = _run(rule, watch, x, ybar)
    except OutputChanged as error:
        return Reply(None, output_failure(error))
    except Exception as error:
        failure = failure_of(error)
        return Reply(None, failure, _partial(rule, watch), tuple(watch.effects))
    return Reply(value, None, form, tuple(watch.effects))


def _partial(rule: TorchRule, watch: Watch) -> Form:
    return Form(
        entered=tuple(watch.entered),
        expected_entry=rule.expected_entry,
        returned=watch.returned,
        arity=watch.arity,
        saw=watch.saw,
    )


def _run(rule: TorchRule, watch: Watch, x: Vector, ybar: Vector) -> tuple[Vector, Form]:
    from gradproof.adapters.torch_rule import pull

    domain = rule.forward.domain
    leaves = rule.leaves(x)
    before = [bits(t) for t in leaves]
    outs = rule.program(leaves)
    versions = [t._version for t in leaves]
    for leaf, t, was in zip(domain, leaves, before, strict=True):
        watch._note("mutated-input", leaf.path, was, t)
    graph = torch_graph.nodes(outs)
    connected = torch_graph.reached(graph, outs, leaves)
    cotangents = rule.cotangents(ybar)
    given = [bits(t) for t in cotangents]
    random = rule.program.state.read()
    grads = pull(outs, leaves, cotangents)
    sources = drawn(random, rule.program.state.read())
    for i, (t, was) in enumerate(zip(cotangents, given, strict=True)):
        subject = _numbered("grad_output", i, len(cotangents))
        watch._note("mutated-cotangent", subject, was, t)
    for leaf, t, was in zip(domain, leaves, before, strict=True):
        watch._note("mutated-input", leaf.path, was, t)
    if sources:
        watch.effects.append(
            Effect("draws-in-backward", "backward", "draws from " + ", ".join(sources))
        )
    del versions
    form = Form(
        graph=any(connected),
        entered=tuple(watch.entered),
        expected_entry=rule.expected_entry,
        returned=watch.returned,
        arity=watch.arity,
        saw=watch.saw,
        unused=tuple(
            leaf.path for leaf, g in zip(domain, grads, strict=True) if g is None
        ),
        detached=tuple(
            out.path
            for out, t in zip(rule.program.outs, outs, strict=True)
            if not t.requires_grad
        ),
    )
    return to_vector(domain, grads), form
