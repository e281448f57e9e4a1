"""Derivatives by central differences with the caller's step, and nothing else.

The classical measurement, (f(x + eps) − f(x − eps)) / (2 eps), in the dtype that the
function works in. A complex input has the conjugate Wirtinger derivative of a real
function, ∂f/∂x + i ∂f/∂y (Brandwood, 1983, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradproof.adapters import torch_gradcheck_texts as texts
from gradproof.adapters.torch_gradcheck_tensors import (
    Direction,
    as_tuple,
    cells,
    is_float,
    whole,
)

Function = Callable[..., Any]
# By the place of the output; outputs that are no floats have none.
Slopes = dict[int, torch.Tensor]


def jacobians(
    func: Function,
    inputs: Sequence[Any],
    index: int,
    outputs: Sequence[Any],
    eps: float,
) -> Slopes:
    """The Jacobians of all float outputs with respect to one input, entry by entry.

    Args:
        func: takes the inputs.
        inputs: all of them; ``inputs[index]`` is moved in place and put back, also
            when ``func`` raises.
        index: which input.
        outputs: what ``func`` returned, for sizes and dtypes.
        eps: the step, in units of the input.

    Returns:
        For each float output a matrix of shape (numel of the input, numel of the
        output). Rows of elements that a sparse input does not store are zero.

    Raises:
        AssertionError: the outputs change their shape, dtype or number.
    """
    tensor = inputs[index]
    floats = {p: out for p, out in enumerate(outputs) if is_float(out)}
    matrices = {p: _allocate(tensor, out) for p, out in floats.items()}
    rows = {
        p: matrix.view(-1, *floats[p].shape).unbind(0)
        for p, matrix in matrices.items()
        if matrix.numel()
    }
    steps = (eps, eps * 1j) if tensor.dtype.is_complex else (eps,)
    for cell in cells(tensor):
        call = _caller(func, inputs, index, cell.argument)
        slopes = _wirtinger(
            [
                _difference(call, cell.view, step, eps=eps, index=cell.index)
                for step in steps
            ]
        )
        for p, row in rows.items():
            row[cell.column].copy_(slopes[p])
    return matrices


def directional(
    func: Function, inputs: Sequence[Any], index: int, direction: Direction, eps: float
) -> Slopes:
    """The derivatives of all float outputs along one direction of one input.

    Each a flat tensor. The step is ``eps`` times the direction. For a complex input the two parts of the
    direction are moved along one after the other.
    """
    held = whole(inputs[index])
    call = _caller(func, inputs, index, held.argument)
    steps = [held.layout(part) * eps for part in direction.parts]
    if len(steps) > 1:
        steps[1] = steps[1] * 1j
    slopes = _wirtinger([_difference(call, held.view, step, eps=eps) for step in steps])
    return {p: slope.reshape(-1) for p, slope in slopes.items()}


def _allocate(tensor: Any, output: Any) -> torch.Tensor:
    dtype = tensor.dtype if tensor.dtype.is_complex else output.dtype
    shape = (tensor.numel(), output.numel())
    return torch.zeros(shape, dtype=dtype, device=output.device)


def _caller(
    func: Function, inputs: Sequence[Any], index: int, argument: Callable[[], Any]
) -> Callable[[], tuple[Any, ...]]:
    """``func`` at the inputs, with one of them exchanged."""

    def call() -> tuple[Any, ...]:
        arguments = list(inputs)
        arguments[index] = argument()
        # Copies: an output may be the very input that is moved next.
        return tuple(out.detach().clone() for out in as_tuple(func(*arguments)))

    return call


def _difference(
    call: Callable[[], tuple[Any, ...]],
    view: Any,
    step: Any,
    *,
    eps: float,
    index: tuple[int, ...] | None = None,
) -> Slopes:
    """(f(x + step) − f(x − step)) / (2 eps) for every float output."""
    origin = view.clone()
    try:
        view.copy_(origin - step)
        below = call()
        view.copy_(origin + step)
        above = call()
    finally:
        view.copy_(origin)
    if len(below) != len(above):
        raise AssertionError(texts.output_count_changed(len(below), len(above)))
    out: Slopes = {}
    for p, (low, high) in enumerate(zip(below, above, strict=True)):
        for what, a, b in (
            ("shape", low.shape, high.shape),
            ("dtype", low.dtype, high.dtype),
        ):
            if a != b:
                raise AssertionError(texts.output_changed(what, a, b, eps, index))
        if low.dtype.is_floating_point or low.dtype.is_complex:
            out[p] = (high - low) / (2 * eps)
    return out


def _wirtinger(parts: list[Slopes]) -> Slopes:
    """∂/∂x + i ∂/∂y of every output; of a real input there is only the first."""
    if len(parts) == 1:
        return parts[0]
    real, imaginary = parts
    return {p: slope + imaginary[p] * 1j for p, slope in real.items()}
