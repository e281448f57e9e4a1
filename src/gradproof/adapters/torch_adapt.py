"""From what the user gave to a TorchRule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters import torch_graph, trees
from gradproof.adapters.failures import failure_of, peeled
from gradproof.adapters.torch_bypass import Calls
from gradproof.adapters.torch_callee import Callee, of_pair, recognise
from gradproof.adapters.torch_draft import Draft
from gradproof.adapters.torch_hooks import watching
from gradproof.adapters.torch_program import Program, outputs_of
from gradproof.adapters.torch_rule import TorchPrimal, TorchRule
from gradproof.adapters.torch_source import (
    display_name,
    source_of_callee,
    source_of_compiled,
    source_of_custom,
)
from gradproof.adapters.torch_tensors import (
    alike,
    is_tensor,
    to_tensors,
    to_vector,
)
from gradproof.errors import UsageError, UserCodeError
from gradproof.rule import Primal
from gradproof.space import Space, Vector
from gradproof.verdict import Failure, Source

REENTRANT = (
    "{} uses torch.utils.checkpoint with use_reentrant=True, which refuses "
    "torch.autograd.grad; pass use_reentrant=False, or check what is checkpointed"
)
UNASKED = "{} has no gradient in PyTorch, and none was asked"

# Another kernel, chosen where no graph is recorded, rounds otherwise by this much.
_ROUNDING = 1e3


def adapt(
    thing: Any,
    inputs: Any,
    kwargs: dict[str, Any] | None = None,
    *,
    vjp: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    reset: Callable[[], Any] | None = None,
    name: str | None = None,
) -> TorchRule:
    """The rule of a PyTorch object at the given inputs; see ``adapters.adapt``."""
    callee = recognise(thing, name) if vjp is None else of_pair(thing, vjp, name)
    draft = Draft(callee, trees.positional(inputs), dict(kwargs or {}))
    program, domain, point = draft.program(reset)
    program, found = _first_call(program, callee, domain, point)
    if callee.kind == "pair":
        custom: tuple[Source, ...] = (source_of_callee(callee, ()),)
    else:
        custom = tuple(source_of_custom(cls) for cls in found.classes)
        custom += tuple(source_of_compiled(name) for name in found.compiled)
    bypassed = tuple(source_of_custom(cls) for cls in found.bypassed)
    primal = TorchPrimal(program, domain, point)
    gap = found.gap(primal)
    if gap > 0:
        primal = TorchPrimal(program, domain, point, recording=True)
    if gap > _ROUNDING:
        draft.notes.append(
            "the forward gives other values, or raises, under torch.no_grad(); "
            "differences were taken of what it gives in training"
        )
    rule = TorchRule(
        primal,
        source_of_callee(callee, custom or bypassed),
        entry=_entry(callee, custom, bypassed),
        bypassed=tuple(c.name for c in bypassed),
        itself=callee.kind in ("autograd.Function", "custom_op"),
        differentiable=found.connected,
        classes=found.classes,
        custom=custom,
        scalars=trees.numbers(draft.plain),
        notes=(*draft.notes, *map(UNASKED.format, sorted(program.unasked))),
    )
    inputs_only = tuple(i >= draft.count for i in range(len(domain)))
    if surrogate is not None:
        rule = rule.about(_alongside(program, primal, surrogate, "surrogate"))
    if reference is not None:
        rule.compare_with(
            _alongside(program, primal, reference, "reference").program,
            tuple(not parameter for parameter in inputs_only),
        )
    return rule


def forward_of(
    thing: Any,
    inputs: Any,
    kwargs: dict[str, Any] | None = None,
    *,
    reset: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Primal:
    """The function alone, run without a graph unless it needs one to run."""
    callee = recognise(thing, name)
    draft = Draft(callee, trees.positional(inputs), dict(kwargs or {}))
    program, domain, point = draft.program(reset)
    try:
        with program.state.watched(), torch.no_grad():
            result = program.raw(to_tensors(domain, program.specs, point))
    except Exception:  # it may need a graph; if not, it raises there again
        return adapt(thing, inputs, kwargs, reset=reset, name=name).primal
    outputs = outputs_of(result)
    if not outputs:
        raise UsageError(_no_output(callee, result))
    return TorchPrimal(program.with_outs(outputs), domain, point)


def _entry(
    callee: Callee, custom: tuple[Source, ...], bypassed: tuple[Source, ...]
) -> str:
    """The name under which the backward under test ought to be seen to run."""
    if callee.function is not None:
        return display_name(callee.function)
    expected = custom or bypassed
    return expected[0].name if len(expected) == 1 else ""


def _alongside(
    program: Program, primal: TorchPrimal, call: Callable[..., Any], keyword: str
) -> TorchPrimal:
    """``call`` on the same arguments, or a UsageError where it gives something else."""
    if not callable(call):
        raise UsageError(
            f"Expected {keyword}= to be a function of the same arguments but got "
            f"{type(call).__name__}, which cannot be called."
        )
    called = getattr(call, "__name__", type(call).__name__)
    other = TorchPrimal(
        replace(program, call=call, parameters=()), primal.domain, primal.point
    )
    failure = other.value(primal.point).failure
    if failure is not None and keyword == "reference":
        other = _of_another_dtype(other) or other
        failure = other.value(primal.point).failure
    if failure is None:
        return other
    if failure.kind == "OutputChanged":
        raise UsageError(
            f"{keyword}={called} gives another output than the function under test: "
            f"{failure.message}; it must return the same structure, shapes and dtypes."
        )
    raise UserCodeError(
        f"{keyword}={called} raised {failure.kind} at the given inputs: "
        f"{failure.message}",
        failure.trace,
    )


def _of_another_dtype(plain: TorchPrimal) -> TorchPrimal | None:
    """A reference whose outputs have other dtypes: it may compute in a wider one."""
    program = plain.program
    try:
        with program.state, torch.no_grad():
            found = program.outputs(plain.tensors(plain.point))
    except Exception:  # which ``_alongside`` tells of
        return None
    if [tuple(t.shape) for _, t in found] != [o.shape for o in program.outs]:
        return None
    return TorchPrimal(program.with_outs(found), plain.domain, plain.point)


@dataclass(frozen=True, eq=False)
class _Found:
    """What the first call showed: custom gradients inside, a graph, the values."""

    classes: tuple[type, ...]
    compiled: tuple[str, ...]
    bypassed: tuple[type, ...]
    connected: bool
    outs: list[Tensor]

    def gap(self, primal: TorchPrimal) -> float:
        """How far the values without a graph are from these.

        In units of rounding of the largest value; infinite where it raises; 0 where
        they are the same to the bit, or not the same twice, so that nothing can be
        told.
        """
        outs = primal.outputs(primal.point)
        if isinstance(outs, Failure):
            return np.inf
        if all(alike(a, b) for a, b in zip(self.outs, outs, strict=True)):
            return 0.0
        seen, value = (
            to_vector(primal.codomain, [t.detach() for t in found])
            for found in (self.outs, outs)
        )
        if np.array_equal(seen, value, equal_nan=True):
            return 0.0
        again = primal.value(primal.point).value
        if again is None or not np.array_equal(again, value, equal_nan=True):
            return 0.0
        with np.errstate(invalid="ignore"):
            far = np.abs(np.nan_to_num(seen) - np.nan_to_num(value)).max()
        top = np.abs(np.nan_to_num(seen)).max()
        return float(far / (primal.codomain.unit * top)) if top else np.inf


def _first_call(
    program: Program, callee: Callee, domain: Space, point: Vector
) -> tuple[Program, _Found]:
    """Run the forward once as training would, and see what it is made of."""
    calls = Calls()

    def run(p: Program) -> tuple[list[Tensor], Any]:
        leaves = [t.requires_grad_() for t in to_tensors(domain, p.specs, point)]
        with (
            p.state.watched(),
            torch.enable_grad(),
            watching(calls.on_apply),
            calls.listening(),
        ):
            return leaves, p.raw(leaves)

    try:
        try:
            leaves, result = run(program)
        except RuntimeError as error:
            if "leaf" not in str(error) or "in-place" not in str(error):
                raise
            # It writes on its inputs: a leaf refuses, what training hands it does not.
            program = replace(program, copies=True)
            leaves, result = run(program)
    except Exception as error:
        raise _user_error(callee, error) from peeled(error)
    outputs = outputs_of(result)
    if not outputs:
        raise UsageError(_no_output(callee, result))
    program, outputs = _asked(program, callee, outputs)
    outs = [t for _, t in outputs]
    graph = torch_graph.nodes(outs)
    if any(torch_graph.reenters(node) for node in graph):
        raise UsageError(REENTRANT.format(callee.name))
    compiled = dict.fromkeys(
        torch_graph.compiled_name(node)
        for node in graph
        if torch_graph.is_custom(node) and not hasattr(node, "_forward_cls")
    )
    connected = any(torch_graph.reached(graph, outs, leaves))
    found = _Found(
        tuple(calls.applied), tuple(compiled), calls.bypassed, connected, outs
    )
    return program.with_outs(outputs), found


def _asked(
    program: Program, callee: Callee, outputs: list[tuple[str, Tensor]]
) -> tuple[Program, list[tuple[str, Tensor]]]:
    """``program`` without the outputs that are meant to have no gradient; the others.

    An operator of PyTorch's own returns statistics beside its result. What a Function
    marks is asked: an output that depends on an input may be marked by mistake.
    """
    some = any(t.requires_grad for _, t in outputs)
    if (
        not some
        or callee.kind != "custom_op"
        or not str(callee.call).startswith("aten.")
    ):
        return program, outputs
    meant = frozenset(path for path, t in outputs if not t.requires_grad)
    kept = [(path, t) for path, t in outputs if path not in meant]
    return replace(program, unasked=meant), kept


def _user_error(callee: Callee, error: Exception) -> UserCodeError:
    failure = failure_of(error)
    return UserCodeError(
        f"{callee.name} raised {failure.kind} at the given inputs: {failure.message}",
        failure.trace,
    )


def _no_output(callee: Callee, result: Any) -> str:
    leaves = trees.walk(result, "out")
    if len(leaves) == 1 and not is_tensor(leaves[0][1]):
        return (
            f"{callee.name} returned {type(result).__name__} where a tensor was "
            f"expected; return the tensor whose gradient is to be checked."
        )
    got = ", ".join(
        f"{p}: {str(t.dtype).removeprefix('torch.') if is_tensor(t) else type(t).__name__}"
        for p, t in leaves
    )
    return (
        f"{callee.name} returned no floating-point tensor "
        f"({got if got else 'nothing at all'}), so there is nothing to differentiate."
    )
