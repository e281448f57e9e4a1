"""The right backward as code, from a forward that can be looked through.

The forward's body runs once under a recorder; its operations are walked backwards by a
table of rules (what has none asks ``torch.func.vjp``); the sums and products are
simplified and written in the forward's own names. A run at other shapes tells which
numbers are extents. Nothing here judges: the text is proved where a rule is proved.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradproof.adapters import torch_parts
from gradproof.adapters import torch_suggest_rules as _rules  # noqa: F401
from gradproof.adapters import torch_suggest_shapes as _shapes  # noqa: F401
from gradproof.adapters.torch_callee import is_new_style
from gradproof.adapters.torch_suggest_elsewhere import elsewhere, only_this_rank
from gradproof.adapters.torch_suggest_emit import Method, cotangent_names
from gradproof.adapters.torch_suggest_expr import CannotSay, E, children
from gradproof.adapters.torch_suggest_numbers import explained
from gradproof.adapters.torch_suggest_trace import Trace, traced
from gradproof.adapters.torch_suggest_vjp import (
    RULES,
    ZERO,
    Chain,
    differentiable,
    same_vjp,
)


@dataclass(frozen=True, eq=False)
class Suggested:
    """A backward as text, and a Function that has it."""

    text: str
    function: Any
    args: tuple[Any, ...]
    others: tuple[tuple[Any, ...], ...]  # the same arguments at other shapes


def suggestion(rule: Any) -> Suggested | str:
    """What to write for the one Function that a TorchRule applies; or why not."""
    with rule.program.state, torch.enable_grad():
        seen = torch_parts.sightings(
            lambda: rule.program(rule.leaves(rule.forward.point))
        )
    found = [(cls, args, kwargs) for cls, args, kwargs in seen if _is_function(cls)]
    classes = {cls for cls, _, _ in found}
    if len(classes) != 1:
        count = "several" if classes else "no"
        return f"{count} autograd.Function was applied, and one was expected"
    cls, args, kwargs = found[0]
    if kwargs:
        return "it was called with keyword arguments"
    try:
        with rule.program.state, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a use that is ours, not theirs
            return suggest(cls, args)
    except CannotSay as error:
        return str(error)
    except Exception as error:  # whatever the user's code does under a recorder
        return f"the forward raised {type(error).__name__} when it was looked through"


def _is_function(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, torch.autograd.Function)


def suggest(cls: Any, args: tuple[Any, ...]) -> Suggested:
    """A backward for the forward of ``cls``, written at ``args``.

    Raises:
        CannotSay: there is none, and why.
    """
    others = elsewhere(cls, args)
    if not others:
        raise CannotSay(
            "the forward ran at no other shape, so it could not be tried there"
        )
    trace = _with_extents(cls, args, others[0])
    _fixed(cls, args, trace)
    names = cotangent_names(cls, len(trace.outs))
    grads = tuple(
        trace.builder.name(n, e.meta) if e is not None else trace.builder.name(n, 0)
        for n, e in zip(names, trace.outs, strict=True)
    )
    results = pulled_back(trace, grads, args)
    method = Method(trace, cls, grads, results)
    text = method.text()
    function = _function(cls, text, method)
    if only_this_rank(cls, function, args):
        text = text.replace(":\n", f":\n    # {_ranks(trace)}\n", 1)
    return Suggested(text, function, args, others)


def _ranks(trace: Trace) -> str:
    """For arrays of how many axes it was written."""
    found = [f"{n}: {len(e.shape)}-D" for n, e in _pairs(trace) if e and e.is_tensor]
    return f"For {', '.join(found)}, as it was checked; not for other ranks."


def _with_extents(cls: Any, args: tuple[Any, ...], other: tuple[Any, ...]) -> Trace:
    """The trace at ``args``, its numbers told from extents by another run."""
    first, second = traced(cls, args, Chain()), traced(cls, other, Chain())
    a, b = first.numbers, second.numbers
    if len(a) != len(b) or _steps(first) != _steps(second):
        raise CannotSay(
            "the forward takes other steps at another shape, as by a loop or a branch"
        )
    builder = Chain()
    told: dict[int, Any] = {}
    for i, pair in enumerate(zip(a, b, strict=True)):
        if pair[0] != pair[1]:
            found = explained(builder, pair, _extents(builder, first, second))
            if found is None:
                raise CannotSay(
                    "the forward uses a number that changes with the shapes: "
                    f"{pair[0]:.6g}, and {pair[1]:.6g} at another shape"
                )
            told[i] = found
    return traced(cls, args, builder, told)


def _fixed(cls: Any, args: tuple[Any, ...], trace: Trace) -> None:
    """Numbers for which only the given value was seen: counts of loops, and switches."""
    seen: set[E] = set()
    for made in trace.order:
        _gather(made, seen)
    for i, name in enumerate(trace.names):
        e = trace.args.get(name)
        if e is None or e.is_tensor:
            continue
        if e not in seen or (
            isinstance(args[i], int) and not _same_steps(cls, args, i, trace)
        ):
            trace.fixed[name] = args[i]


def _gather(e: E, seen: set[E]) -> None:
    if e not in seen:
        seen.add(e)
        for part in children(e):
            _gather(part, seen)


def _same_steps(cls: Any, args: tuple[Any, ...], i: int, trace: Trace) -> bool:
    """Whether one more changes nothing in what the forward does."""
    other = (*args[:i], args[i] + 1, *args[i + 1 :])
    try:
        again = traced(cls, other, Chain())
    except Exception:  # what the forward does not take
        return False
    return _steps(again) == _steps(trace)


def _steps(trace: Trace) -> list[str]:
    return [e.op for e in trace.order]


def _extents(b: Chain, first: Trace, second: Trace) -> list[tuple[E, int, int]]:
    out = []
    for name, e in first.args.items():
        other = second.args[name].shape
        leaf = b.name(name, e.meta) if e.is_tensor else None
        for d in reversed(range(len(e.shape))):
            if leaf is not None:
                out.append((b.extent(leaf, d), e.shape[d], other[d]))
    return out


def pulled_back(
    trace: Trace, grads: tuple[E, ...], args: tuple[Any, ...]
) -> dict[str, Any]:
    """The gradient of each argument as an expression; None for those without one."""
    b = trace.builder
    wanted = {
        name: e
        for (name, e), a in zip(_pairs(trace), args, strict=True)
        if e is not None and differentiable(e) and _varies(a, args)
    }
    flows = _reached(trace, set(wanted.values()))
    sums: dict[E, Any] = {}
    parts: dict[E, list[Any]] = {}
    for out, ybar in zip(trace.outs, grads, strict=True):
        if out is not None and differentiable(out):
            sums[out] = b.add(sums[out], ybar) if out in sums else ybar
    for e in reversed(trace.order):
        if e not in flows or e in wanted.values():
            continue
        g: Any = parts.get(e, sums.get(e))
        if g is None or isinstance(g, (int, float)):
            continue
        if _is_part(e):
            parent = e.args[0]
            parts.setdefault(parent, [None] * len(parent.meta))[e.args[1]] = g
            continue
        for x, part in _contributions(b, g, e):
            if isinstance(x, E) and x in flows:
                sums[x] = b.add(sums[x], part) if x in sums else part
    return {
        name: _final(b, sums.get(e, 0), e) if e is not None and name in wanted else None
        for name, e in _pairs(trace)
    }


def _pairs(trace: Trace) -> list[tuple[str, E | None]]:
    return [(name, trace.args.get(name)) for name in trace.names]


def _varies(a: Any, args: tuple[Any, ...]) -> bool:
    asked = any(isinstance(t, Tensor) and t.requires_grad for t in args)
    return isinstance(a, Tensor) and (a.requires_grad or not asked)


def _is_part(e: E) -> bool:
    return e.op == "getitem" and isinstance(e.args[0].meta, tuple)


def _final(b: Chain, g: Any, e: E) -> Any:
    if not isinstance(g, E):
        return b.zeros(e) if g == 0 else b.function("full_like", e, g)
    g = b.attr("real", g) if g.is_complex and not e.is_complex else g
    return b.full(g, e)


def _reached(trace: Trace, leaves: set[E]) -> set[E]:
    """What depends on the leaves by a differentiable road."""
    flows = set(leaves)
    for e in trace.order:
        if e.op in ZERO:
            continue
        tuple_ = isinstance(e.meta, tuple)
        if (tuple_ or differentiable(e)) and any(c in flows for c in children(e)):
            flows.add(e)
    return flows


def _contributions(b: Chain, g: Any, e: E) -> Any:
    entry = RULES.get(e.op)
    if entry is not None:
        try:
            return list(entry.rule(b, g, e, entry.bind(e.args, e.keyword)))
        except TypeError:  # called in a way that the table does not know
            pass
    if isinstance(g, list):
        raise CannotSay(
            f"{e.op} gives several tensors, and its gradient is not known here"
        )
    try:
        return same_vjp(b, g, e)
    except TypeError:
        raise CannotSay(f"the gradient of {e.op} is not known here") from None


# The Function that has it.


def _function(cls: Any, text: str, method: Method) -> Any:
    """``cls`` with the backward of ``text``, and what it wants to be kept."""
    home = dict(getattr(inspect.unwrap(cls.forward), "__globals__", {}))
    home["torch"] = torch
    lines = text.splitlines()
    source = "\n".join(line for line in lines if not line.startswith("@"))
    exec(compile(source, "<suggestion>", "exec"), home)
    backward = home["backward"]
    if any("once_differentiable" in line for line in lines[:2]):
        backward = torch.autograd.function.once_differentiable(backward)
    inside: dict[str, Any] = {"backward": staticmethod(backward)}
    if method.extra or method.kept:
        inside.update(_saving(cls, method))
    return type(cls.__name__, (cls,), {**inside, "__module__": cls.__module__})


def _saving(cls: Any, method: Method) -> dict[str, Any]:
    names = method.trace.names

    def keep(ctx: Any, args: tuple[Any, ...]) -> None:
        given = dict(zip(names, args, strict=False))
        saved = getattr(ctx, "to_save", None) or ()
        ctx.save_for_backward(*saved, *(given[n] for n in method.extra))
        for key, value in method.kept.items():
            of, _, word = value.partition(".")
            setattr(ctx, key, getattr(given[of], word) if word else given[of])

    if is_new_style(cls):

        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            cls.setup_context(ctx, inputs, output)
            keep(ctx, inputs)

        return {"setup_context": staticmethod(setup_context)}

    signature = inspect.signature(cls.forward)

    def forward(ctx: Any, *args: Any) -> Any:
        out = cls.forward(ctx, *args)
        bound = signature.bind(ctx, *args)
        bound.apply_defaults()
        keep(ctx, bound.args[1:])
        return out

    return {"forward": staticmethod(forward)}
