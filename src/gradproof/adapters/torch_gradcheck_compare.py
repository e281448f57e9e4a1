"""The engine's derivatives against the numbers, entry by entry or by projection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from gradproof.adapters import torch_gradcheck_analytic as analytic
from gradproof.adapters import torch_gradcheck_numeric as numeric
from gradproof.adapters import torch_gradcheck_texts as texts
from gradproof.adapters.torch_gradcheck_options import RTOL, Bench, Options
from gradproof.adapters.torch_gradcheck_tensors import (
    Direction,
    Draws,
    as_tuple,
    fully_specified,
    is_tensor_like,
    wants_grad,
)
from gradproof.adapters.torch_gradcheck_texts import GradcheckError

Function = Callable[..., Any]

# Above this many entries a failure in fast mode is not worked out entry by entry.
MOST_ENTRIES = 2**24


@dataclass(frozen=True)
class Aspect:
    """A function with real derivatives to compare, made of the user's.

    ``part`` is "real" or "imaginary" where only that part of the complex outputs
    (backward) or inputs (forward) is looked at, and ``complex_at`` says which they are.
    """

    func: Function
    func_out: tuple[Any, ...]
    inputs: tuple[Any, ...]
    forward: bool = False
    part: str = ""
    complex_at: frozenset[int] = frozenset()

    @property
    def wanted(self) -> list[int]:
        """Places of the inputs that require grad."""
        return [i for i, value in enumerate(self.inputs) if wants_grad(value)]

    @property
    def differentiable(self) -> list[int]:
        """Places of the outputs that require grad."""
        return [p for p, out in enumerate(self.func_out) if out.requires_grad]

    def text(self, pair: Pair) -> str:
        """The sentence for two Jacobians that differ."""
        at = self.wanted[pair.input_] if self.forward else pair.output
        prefix = ""
        if self.part and at in self.complex_at:
            element = "inputs" if self.forward else "outputs"
            prefix = texts.part_considered(self.part, element)
        return texts.mismatch(
            pair.numerical,
            pair.analytical,
            pair.output,
            pair.input_,
            prefix=prefix,
            mode="computed with forward mode " if self.forward else "",
        )


@dataclass(frozen=True, eq=False)
class Pair:
    """What is to be compared for one output and one input (counted as in messages)."""

    output: int
    input_: int
    analytical: torch.Tensor
    numerical: torch.Tensor
    atol: float
    direction: Direction | None = None  # in fast mode


def aspects_backward(
    func: Function, func_out: tuple[Any, ...], inputs: tuple[Any, ...]
) -> Iterator[Aspect]:
    """The function itself, or the imaginary and the real part of its outputs."""
    if not any(out.is_complex() for out in func_out):
        yield Aspect(func, func_out, inputs)
        return
    differentiable = [out for out in func_out if out.requires_grad]
    at = frozenset(i for i, out in enumerate(differentiable) if out.is_complex())
    for part, take in (("imaginary", torch.imag), ("real", torch.real)):
        shown = partial(_part_of_outputs, func, take)
        yield Aspect(shown, shown(*inputs), inputs, part=part, complex_at=at)


def aspects_forward(
    func: Function, func_out: tuple[Any, ...], inputs: tuple[Any, ...]
) -> Iterator[Aspect]:
    """The function itself, or as one of the imaginary and real parts of its inputs."""
    at = frozenset(
        i for i, x in enumerate(inputs) if is_tensor_like(x) and x.is_complex()
    )
    if not at:
        yield Aspect(func, func_out, inputs, forward=True)
        return
    for part, take, join in (
        ("imaginary", torch.imag, _with_imaginary),
        ("real", torch.real, _with_real),
    ):
        shown = partial(_of_part_of_inputs, func, join, inputs, at)
        taken = tuple(take(x) if i in at else x for i, x in enumerate(inputs))
        yield Aspect(
            shown, shown(*taken), taken, forward=True, part=part, complex_at=at
        )


def _part_of_outputs(
    func: Function, take: Callable[[Any], Any], *inputs: Any
) -> tuple[Any, ...]:
    return tuple(
        take(out) if out.is_complex() else out for out in as_tuple(func(*inputs))
    )


def _of_part_of_inputs(
    func: Function,
    join: Callable[[Any, Any], Any],
    originals: tuple[Any, ...],
    at: frozenset[int],
    *inputs: Any,
) -> tuple[Any, ...]:
    """The function of one real part; the other is held at its (nonzero) value."""
    joined = (join(x, originals[i]) if i in at else x for i, x in enumerate(inputs))
    return as_tuple(func(*joined))


def _with_imaginary(imaginary: Any, original: Any) -> Any:
    return original.real + imaginary * 1j


def _with_real(real: Any, original: Any) -> Any:
    return real + original.imag * 1j


def compare(aspect: Aspect, options: Options, bench: Bench) -> None:
    """Raise GradcheckError at the first pair that differs and is not proven right."""
    pairs = _fast_pairs if options.fast_mode else _slow_pairs
    for pair in pairs(aspect, options):
        if not aspect.forward:
            text = partial(aspect.text, pair)
            bench.note(pair.analytical, pair.numerical, text)
        if _close(pair.analytical, pair.numerical, options.rtol, pair.atol):
            continue
        if bench.proves() and (not aspect.forward or _as_backward(aspect, pair)):
            continue
        raise GradcheckError(_describe(aspect, pair, options))


def _numerical_inputs(aspect: Aspect, options: Options) -> tuple[Any, ...]:
    """The inputs to move: unless masked, sparse ones with every element stored."""
    if options.masked:
        return aspect.inputs
    return tuple(fully_specified(value) for value in aspect.inputs)


def _slow_pairs(aspect: Aspect, options: Options) -> Iterator[Pair]:
    """Whole Jacobians, of shape (numel of the input, numel of the output)."""
    nothing = not aspect.differentiable
    inputs = aspect.inputs if nothing else _numerical_inputs(aspect, options)
    numerical = [
        numeric.jacobians(aspect.func, inputs, i, aspect.func_out, options.eps)
        for i in aspect.wanted
    ]
    if nothing:
        _demand_zero(numerical, lambda slope: slope != 0)
        return
    for p, j, analytical in _slow_analytical(aspect, options):
        place = aspect.differentiable[p]
        yield Pair(p, j, analytical, numerical[j][place], options.atol)


def _slow_analytical(
    aspect: Aspect, options: Options
) -> Iterator[tuple[int, int, torch.Tensor]]:
    """The engine's Jacobians, one output after the other."""
    if aspect.forward:
        columns = analytic.forward(
            aspect.func,
            aspect.inputs,
            aspect.func_out,
            check_grad_dtypes=options.check_grad_dtypes,
        )
        for p, place in enumerate(aspect.differentiable):
            for j, column in enumerate(columns):
                yield p, j, column[place]
        return
    for p, place in enumerate(aspect.differentiable):
        rows = analytic.backward(
            aspect.inputs,
            aspect.func_out[place],
            nondet_tol=options.nondet_tol,
            check_grad_dtypes=options.check_grad_dtypes,
        )
        for j, row in enumerate(rows):
            yield p, j, row


def _fast_pairs(aspect: Aspect, options: Options) -> Iterator[Pair]:
    """One number a pair: v·J·u backward; the vector J·u forward."""
    draws = Draws()
    directions = [draws.direction(aspect.inputs[i]) for i in aspect.wanted]
    outputs = [aspect.func_out[p] for p in aspect.differentiable]
    weights = [] if aspect.forward else [draws.weights(out) for out in outputs]
    moved = _numerical_inputs(aspect, options)
    slopes = [
        numeric.directional(aspect.func, moved, i, direction, options.eps)
        for i, direction in zip(aspect.wanted, directions, strict=True)
    ]
    if not outputs:
        _demand_zero(slopes, lambda slope: slope.abs() > options.nondet_tol)
        return
    analytical = _fast_analytical(aspect, options, directions, weights)
    for j, direction in enumerate(directions):
        for p, place in enumerate(aspect.differentiable):
            slope, atol = slopes[j][place], options.atol * direction.total
            if weights:
                slope = (weights[p] * slope).sum()
                atol *= float(weights[p].sum())
            yield Pair(p, j, analytical[j][p], slope, atol, direction)


def _fast_analytical(
    aspect: Aspect,
    options: Options,
    directions: Sequence[Direction],
    weights: Sequence[torch.Tensor],
) -> list[list[torch.Tensor]]:
    """[input][differentiable output]."""
    if aspect.forward:
        columns = analytic.forward(
            aspect.func,
            aspect.inputs,
            aspect.func_out,
            directions=directions,
            check_grad_dtypes=options.check_grad_dtypes,
        )
        return [[c[p] for p in aspect.differentiable] for c in columns]
    by_output = [
        analytic.backward(
            aspect.inputs,
            aspect.func_out[place],
            weights=weight,
            nondet_tol=options.nondet_tol,
            check_grad_dtypes=options.check_grad_dtypes,
        )
        for place, weight in zip(aspect.differentiable, weights, strict=True)
    ]
    return [
        [u.along(gradients[j].reshape(-1)) for gradients in by_output]
        for j, u in enumerate(directions)
    ]


def _demand_zero(
    numerical: Sequence[numeric.Slopes],
    moves: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """Nothing requires grad: then nothing may depend on the inputs either."""
    for by_output in numerical:
        if any(bool(moves(slope).any()) for slope in by_output.values()):
            raise GradcheckError(texts.NOT_ZERO)


def _close(
    analytical: torch.Tensor, numerical: torch.Tensor, rtol: float, atol: float
) -> bool:
    """|analytical − numerical| ≤ atol + rtol |numerical|, whatever the dtypes."""
    dtype = torch.promote_types(analytical.dtype, numerical.dtype)
    got = analytical.to(dtype)
    expected = numerical.to(device=analytical.device, dtype=dtype)
    # Mostly the absolute tolerance is enough, and much cheaper to see.
    if got.numel() and (got - expected).abs().max().item() <= atol:
        return True
    return torch.allclose(got, expected, rtol, atol)


def _describe(aspect: Aspect, pair: Pair, options: Options) -> str:
    text = aspect.text(pair)
    if pair.direction is None:
        return text
    return text + _entry_by_entry(aspect, pair, options)


def _entry_by_entry(aspect: Aspect, pair: Pair, options: Options) -> str:
    """The whole Jacobians of a pair that failed in fast mode, or "" if too large."""
    place = aspect.wanted[pair.input_]
    at = aspect.differentiable[pair.output]
    inputs = _numerical_inputs(aspect, options)
    if inputs[place].numel() * aspect.func_out[at].numel() > MOST_ENTRIES:
        return ""
    numerical = numeric.jacobians(
        aspect.func, inputs, place, aspect.func_out, options.eps
    )[at]
    if aspect.forward:
        columns = analytic.forward(aspect.func, aspect.inputs, aspect.func_out)
        analytical = columns[pair.input_][at]
    else:
        rows = analytic.backward(aspect.inputs, aspect.func_out[at])
        analytical = rows[pair.input_]
    numerical = numerical.to(analytical.device)
    gap = (numerical - analytical).abs().max() if numerical.numel() else 0.0
    text = texts.slow_again(numerical, analytical, gap)
    if _close(analytical, numerical, options.rtol, options.atol):
        text += texts.fast_only_advice()
    return text


def _as_backward(aspect: Aspect, pair: Pair) -> bool:
    """Whether forward mode gives what the backward gives, which is proven right.

    Only rounding may lie between them: 16 units of the coarser dtype, or the relative
    tolerance of the drop-in, of the largest entry.
    """
    output = as_tuple(aspect.func(*aspect.inputs))[aspect.differentiable[pair.output]]
    parts = [output.real, output.imag] if output.is_complex() else [output]
    rows = [analytic.backward(aspect.inputs, part)[pair.input_] for part in parts]
    expected = rows[0] if len(rows) == 1 else torch.complex(*rows)
    if pair.direction is not None:
        u = pair.direction.parts[0].to(expected.dtype)
        expected = expected.t() @ u
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    room = max(RTOL, 16 * torch.finfo(pair.analytical.dtype).eps) * scale
    return _close(pair.analytical, expected, 0.0, room)
