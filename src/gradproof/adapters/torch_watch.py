"""What is seen of every custom Function while one forward and backward runs."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from gradproof.adapters import torch_graph, trees
from gradproof.adapters.torch_body import Cuts
from gradproof.adapters.torch_callee import is_new_style
from gradproof.adapters.torch_hooks import hooks_stand
from gradproof.adapters.torch_pair import is_pair
from gradproof.adapters.torch_source import display_name, is_generated, operator_forward
from gradproof.adapters.torch_tensors import bits, changed
from gradproof.verdict import Effect, Returned


class Watch:
    """Looks at each ``apply`` and each backward from both sides.

    ``expected`` is the name of the backward under test; what it was given and what it
    returned is kept. Side effects of every custom Function are kept.
    """

    def __init__(self, expected: str) -> None:
        """Begin with nothing seen."""
        self.expected = expected
        self.cuts = Cuts()
        self.entered: list[str] = []
        self.returned: tuple[Returned, ...] = ()
        self.arity: tuple[int, int] | None = None
        self.saw = ""
        self.effects: list[Effect] = []
        self._nodes: dict[int, tuple[Any, tuple[Any, ...]]] = {}
        self._names: dict[int, str] = {}
        self._hooked: set[int] = set()  # nodes whose saved tensors hooks keep

    def know(self, path: str, t: Tensor) -> None:
        """``t``, which is kept meanwhile, and what shares its memory, is ``path``."""
        if t.layout is torch.strided and t.numel():
            self._names.setdefault(_storage(t), path)

    def note(self, slug: str, subject: str, detail: str) -> None:
        """Keep a side effect, the first of each kind and subject."""
        if detail and not any(
            e.slug == slug and e.subject == subject for e in self.effects
        ):
            self.effects.append(Effect(slug, subject, detail))

    # The handlers.

    def on_apply(self, cls: Any, args: Any, kwargs: Any, original: Any) -> Any:
        """See whether the forward writes on what it was given, and remember that."""
        self.cuts.paused += 1
        try:
            return self._applied(cls, args, kwargs, original)
        finally:
            self.cuts.paused -= 1

    def _applied(self, cls: Any, args: Any, kwargs: Any, original: Any) -> Any:
        given = [(self._name(t, path), t, bits(t)) for path, t in _arguments(cls, args)]
        hooked = hooks_stand()
        out = original(*args, **kwargs)
        outs = [t for t in _flat(out) if isinstance(t, Tensor)]
        for subject, t, before in given:
            if any(o is t for o in outs):
                continue  # it was marked dirty: PyTorch knows
            slug = "unmarked-inplace" if _share(t, outs) else "mutated-input"
            self.note(slug, subject, changed(before, t))
        for t in outs:
            if t.grad_fn is not None:
                self._nodes[id(t.grad_fn)] = (t.grad_fn, args)
                if hooked:
                    self._hooked.add(id(t.grad_fn))
                for path, a in _arguments(cls, args):
                    self.know(path, a)
        return out

    def on_backward(self, node: Any, grads: tuple[Any, ...], original: Any) -> Any:
        """See what the backward is given, what it disturbs, and what it returns."""
        name = display_name(node._forward_cls)
        self.entered.append(name)
        flat = [g for g in _flat(grads) if isinstance(g, Tensor)]
        before = [bits(g) for g in flat]
        # What hooks keep may be had once only, by the backward itself.
        held = [] if id(node) in self._hooked else _saved(node)
        saved = [(i, t) for i, t in enumerate(held) if t is not None]
        kept = [(self._name(t, f"saved tensor {i}"), t, bits(t)) for i, t in saved]
        if name == self.expected and not self.saw:
            self.saw = described(flat)
        result = original(*grads)
        for i, (g, was) in enumerate(zip(flat, before, strict=True)):
            self.note("mutated-cotangent", numbered(i, len(flat)), changed(was, g))
        for subject, t, was in kept:
            self.note("mutated-input", subject, changed(was, t))
        if name == self.expected and not self.returned:
            self._form(node, result)
        return result

    def on_compiled(self, graph: list[Any]) -> None:
        """Hear when a backward that is written in C++ runs."""
        for node in graph:
            if torch_graph.is_custom(node) and not hasattr(node, "_forward_cls"):
                name = torch_graph.compiled_name(node)
                node.register_prehook(lambda grads, name=name: self._heard(name, grads))

    def _heard(self, name: str, grads: Any) -> None:
        self.entered.append(name)
        if name == self.expected and not self.saw:
            self.saw = described([g for g in _flat(grads) if isinstance(g, Tensor)])

    # What they need.

    def _name(self, t: Tensor, otherwise: str) -> str:
        if t.layout is not torch.strided:
            return otherwise
        return self._names.get(_storage(t), otherwise)

    def _form(self, node: Any, result: Any) -> None:
        """Keep the raw return of the backward under test."""
        cls = node._forward_cls
        raw = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        needs = tuple(node.needs_input_grad)
        _, args = self._nodes.get(id(node), (None, ()))
        if is_generated(cls):
            # Generated Functions carry one more argument of PyTorch's own.
            raw, needs = raw[:-1], needs[:-1]
        if len(raw) != len(needs) and not _for_defaults(cls, raw, len(needs)):
            self.arity = (len(raw), len(needs))
        paths = node.call.paths if is_pair(cls) else parameter_names(cls, len(needs))
        self.returned = tuple(
            _returned(path, got, args[i] if i < len(args) else None, needed=bool(need))
            for i, (path, got, need) in enumerate(zip(paths, raw, needs, strict=False))
        )


def _for_defaults(cls: Any, raw: tuple[Any, ...], given: int) -> bool:
    """Whether what is returned beyond the arguments given is None for defaults."""
    if is_pair(cls) or len(raw) < given or any(g is not None for g in raw[given:]):
        return False
    try:
        taken = len(inspect.signature(cls.forward).parameters)
    except (TypeError, ValueError):
        return False
    return len(raw) <= taken - (0 if is_new_style(cls) else 1)


def parameter_names(cls: Any, n: int) -> list[str]:
    """What the ``n`` arguments of a Function's forward are called."""
    body = operator_forward(cls)
    if body is not None:
        return trees.argument_paths(body, (None,) * n)
    skip = 0 if is_new_style(cls) else 1
    return trees.argument_paths(cls.forward, (None,) * n, skip)


def numbered(i: int, n: int) -> str:
    """The name of cotangent ``i`` of ``n``."""
    return "grad_output" if n == 1 else f"grad_output[{i}]"


def described(grads: list[Tensor]) -> str:
    """How cotangents lie in memory, and the grad mode that they come in."""
    mode = "grad mode on" if torch.is_grad_enabled() else "grad mode off"
    parts = [
        f"strides {tuple(g.stride())}, offset {g.storage_offset()}"
        for g in grads
        if g.layout is torch.strided
    ]
    return "; ".join([*parts, mode])


def _arguments(cls: Any, args: tuple[Any, ...]) -> list[tuple[str, Tensor]]:
    """The ordinary tensors among the arguments of a Function, by name."""
    if is_pair(cls):
        named = list(zip(cls.pair.call.paths, args, strict=True))
    else:
        named = list(zip(parameter_names(cls, len(args)), args, strict=True))
    leaves = [item for path, a in named for item in trees.walk(a, path)]
    return [
        (path, t)
        for path, t in leaves
        if isinstance(t, Tensor)
        and not torch._C._functorch.is_functorch_wrapped_tensor(t)
    ]


def _storage(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _share(t: Tensor, outs: list[Tensor]) -> bool:
    """Whether some output lies in the memory of ``t``."""
    if t.layout is not torch.strided:
        return False
    strided = [o for o in outs if o.layout is torch.strided]
    return any(_storage(o) == _storage(t) for o in strided)


def _flat(grads: Any) -> list[Any]:
    return [item for _, item in trees.walk(grads)]


def _saved(node: Any) -> list[Tensor | None]:
    try:
        return list(node.saved_tensors)
    except RuntimeError:
        # A saved tensor that was modified since raises in the backward too, where it
        # is the user's own failure.
        return []


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
        return Returned(path, got is None, needed=needed, **expected)
    return Returned(
        path,
        is_none=False,
        shape=tuple(got.shape),
        dtype=_dtype(got),
        device=str(got.device),
        needed=needed,
        **expected,
    )
