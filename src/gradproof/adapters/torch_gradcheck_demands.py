"""What a derivative owes beyond its values: zero in, zero out; undefined; batched."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._vmap_internals import _vmap
from torch.autograd import forward_ad

from gradproof.adapters import torch_gradcheck_texts as texts
from gradproof.adapters.torch_gradcheck_analytic import (
    differentiated,
    dual,
    pushed,
    tangent_of,
    unpacked,
    zero_tangent,
)
from gradproof.adapters.torch_gradcheck_tensors import (
    Draws,
    as_tuple,
    dense,
    is_sparse,
    is_tensor_like,
    wants_grad,
)
from gradproof.adapters.torch_gradcheck_texts import GradcheckError

Function = Callable[..., Any]


def warn(text: str) -> None:
    """Give a UserWarning that points at the caller's line, outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals["__name__"].startswith("gradproof."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)


def zero_gives_zero(
    outputs: Sequence[Any], inputs: Sequence[Any], *, masked: bool
) -> None:
    """A cotangent of zeros must give gradients of zeros, of the inputs' form.

    Asked of all outputs at once. Uses the graph up.

    Args:
        outputs: those that require grad.
        inputs: all of them.
        masked: accept what ``allclose`` takes for zero.
    """
    tensors = differentiated(inputs)
    gradients: tuple[Any, ...] = torch.autograd.grad(
        outputs, tensors, _zeros(outputs), allow_unused=True
    )
    for gradient, tensor in zip(gradients, tensors, strict=True):
        if gradient is not None:
            _demand_zero_of_form(gradient, tensor, masked=masked)


def _demand_zero_of_form(gradient: Any, tensor: Any, *, masked: bool) -> None:
    if gradient.layout != torch.strided:
        _demand_same_layout(gradient, tensor)
        gradient, tensor = gradient.to_dense(), tensor.to_dense()
    zeros = gradient.eq(0)
    if masked:
        zeros = torch.isclose(gradient, torch.zeros_like(gradient))
    if not bool(zeros.all()):
        raise GradcheckError(texts.NOT_MULTIPLIED)
    for differs, text in (
        (gradient.dtype != tensor.dtype, texts.INCORRECT_TYPE),
        (gradient.device != tensor.device, texts.INCORRECT_DEVICE),
        (gradient.size() != tensor.size(), texts.INCORRECT_SIZE),
    ):
        if differs:
            raise GradcheckError(text)


def _demand_same_layout(gradient: Any, tensor: Any) -> None:
    layout = gradient.layout
    if layout != tensor.layout:
        raise GradcheckError(texts.incorrect_layout(layout, tensor.layout))
    if not is_sparse(gradient):
        return
    for name in ("sparse_dim", "dense_dim"):
        got, expected = getattr(gradient, name)(), getattr(tensor, name)()
        if got != expected:
            text = texts.incorrect_sparsity(layout, name, got, expected)
            raise GradcheckError(text)


def undefined_backward(func: Function, inputs: Sequence[Any]) -> None:
    """Undefined cotangents must be taken for zeros: all at once, then each alone.

    The others are zeros, so that every gradient must be zero or undefined.
    """
    outputs = _differentiable(func, inputs)
    # A tensor-like that is no Tensor cannot be wrapped.
    tensors = [k for k, out in enumerate(outputs) if isinstance(out, torch.Tensor)]
    _demand_zero_or_undefined([_undefined(outputs[k]) for k in tensors], inputs)
    if len(tensors) < 2:
        return
    for k in tensors:
        again = _differentiable(func, inputs)
        again[k] = _undefined(again[k])
        _demand_zero_or_undefined(again, inputs)


def _undefined(output: Any) -> Any:
    """The same output; what comes back through it is no gradient at all."""
    return torch._C._functions.UndefinedGrad()(output)


def _demand_zero_or_undefined(outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    try:
        gradients: tuple[Any, ...] = torch.autograd.grad(
            outputs, differentiated(inputs), _zeros(outputs), allow_unused=True
        )
    except RuntimeError as error:
        warn(texts.UNDEFINED_WARNING)
        raise GradcheckError(texts.UNDEFINED_RAISES) from error
    for gradient in gradients:
        if gradient is not None and not bool(dense(gradient).eq(0).all()):
            warn(texts.UNDEFINED_WARNING)
            raise GradcheckError(texts.UNDEFINED_NOT_ZERO)


def undefined_forward(func: Function, inputs: Sequence[Any]) -> None:
    """A tangent of zeros must count like none at all, for each input in turn."""
    tensors = differentiated(inputs)
    draws = Draws()
    directions = [draws.direction(tensor) for tensor in tensors]
    tangents = [
        tangent_of(tensor, u) for tensor, u in zip(tensors, directions, strict=True)
    ]
    for k, tensor in enumerate(tensors):
        before, after = tangents[:k], tangents[k + 1 :]
        with_zero = pushed(func, inputs, [*before, zero_tangent(tensor), *after])
        with_none = pushed(func, inputs, [*before, None, *after])
        for number, p in enumerate(sorted(with_zero.keys() & with_none.keys())):
            got, expected = with_zero[p], with_none[p]
            if not torch.allclose(got, expected):
                raise GradcheckError(
                    *texts.undefined_tangent(number, tensor, got, expected)
                )


def batched_backward(inputs: Sequence[Any], output: Any, number: int) -> None:
    """Two gradients at once, under vmap, must be those of a loop.

    Args:
        inputs: all of them.
        output: one that requires grad; its graph is kept.
        number: how messages count it.
    """
    tensors = differentiated(inputs)

    def gradients(cotangent: torch.Tensor) -> tuple[Any, ...]:
        found: tuple[Any, ...] = torch.autograd.grad(
            output, tensors, cotangent, retain_graph=True, allow_unused=True
        )
        return tuple(
            _no_derivative(tensor) if gradient is None else gradient
            for gradient, tensor in zip(found, tensors, strict=True)
        )

    got, expected = _both_ways(gradients, _two_random(output), forward=False)
    for j, (a, b) in enumerate(zip(got, expected, strict=True)):
        _demand_same_batch(number, j, a, b, forward=False)


def batched_forward(func: Function, inputs: Sequence[Any]) -> None:
    """Two tangents at once, under vmap, must give what a loop gives, for each input."""
    wanted = [i for i, value in enumerate(inputs) if wants_grad(value)]
    for j, place in enumerate(wanted):
        push = _Push(func, inputs, place)
        got, expected = _both_ways(push, _two_random(inputs[place]), forward=True)
        for p, (a, b) in enumerate(zip(got, expected, strict=True)):
            _demand_same_batch(p, j, a, b, forward=True)


class _Push:
    """The derivative of all outputs along a tangent of one input."""

    def __init__(self, func: Function, inputs: Sequence[Any], place: int) -> None:
        self._func = func
        self._inputs = [
            value.detach() if is_tensor_like(value) else value for value in inputs
        ]
        self._place = place

    def __call__(self, tangent: torch.Tensor) -> tuple[Any, ...]:
        arguments = list(self._inputs)
        with forward_ad.dual_level():
            arguments[self._place] = dual(self._inputs[self._place], tangent)
            out = []
            for output in as_tuple(self._func(*arguments)):
                value, found = unpacked(output)
                out.append(_no_derivative(value) if found is None else found)
            return tuple(out)


def _both_ways(
    derivative: Callable[[torch.Tensor], tuple[Any, ...]],
    seeds: list[torch.Tensor],
    *,
    forward: bool,
) -> tuple[Sequence[Any], list[torch.Tensor]]:
    looped = zip(*(derivative(seed) for seed in seeds), strict=True)
    expected = [torch.stack(shards) for shards in looped]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        try:
            got = _vmap(derivative)(torch.stack(seeds))
        except RuntimeError as error:
            text = texts.batching_failed(error, forward=forward)
            raise GradcheckError(text) from error
    return got, expected


def _demand_same_batch(
    output: int, input_: int, got: Any, expected: Any, *, forward: bool
) -> None:
    if not torch.allclose(got, expected):
        text = texts.batched_differs(output, input_, got, expected, forward=forward)
        raise GradcheckError(text)


def _two_random(tensor: Any) -> list[torch.Tensor]:
    """Two normal tensors of one form, drawn without the global generator."""
    generator = torch.Generator().manual_seed(2)
    return [
        torch.empty_like(tensor, requires_grad=False).copy_(
            torch.randn(
                tensor.shape, dtype=tensor.dtype, generator=generator, device="cpu"
            )
        )
        for _ in range(2)
    ]


def _no_derivative(tensor: Any) -> torch.Tensor:
    return torch.zeros([], dtype=tensor.dtype, device=tensor.device).expand(
        tensor.shape
    )


def _zeros(outputs: Sequence[Any]) -> list[Any]:
    return [
        torch.zeros_like(out, memory_format=torch.contiguous_format) for out in outputs
    ]


def _differentiable(func: Function, inputs: Sequence[Any]) -> list[Any]:
    return [out for out in as_tuple(func(*inputs)) if out.requires_grad]
