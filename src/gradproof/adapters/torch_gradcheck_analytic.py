"""Derivatives as PyTorch's engine gives them: backward rows, forward-mode columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from gradproof.adapters import torch_gradcheck_texts as texts
from gradproof.adapters.torch_gradcheck_tensors import (
    MKLDNN,
    Direction,
    as_tuple,
    dense,
    is_float,
    is_sparse,
    positions,
    wants_grad,
    with_entries,
)
from gradproof.adapters.torch_gradcheck_texts import GradcheckError

Function = Callable[..., Any]

BLOCK = 64  # rows of the second run that are held at a time


def differentiated(inputs: Sequence[Any]) -> list[Any]:
    """The inputs that require grad, in order."""
    return [value for value in inputs if wants_grad(value)]


def backward(
    inputs: Sequence[Any],
    output: Any,
    *,
    weights: torch.Tensor | None = None,
    nondet_tol: float = float("inf"),
    check_grad_dtypes: bool = False,
) -> list[torch.Tensor]:
    """The rows of the Jacobian of one output, by vector-Jacobian products.

    Every product is taken twice, the second time after all of the first, unless any
    difference is allowed.

    Args:
        inputs: all of them; those that require grad are differentiated.
        output: connected to them by a graph, which is kept.
        weights: one flat cotangent for the output; None asks for each unit vector.
        nondet_tol: the largest difference allowed between the two runs.
        check_grad_dtypes: whether a gradient must have the dtype of its input.

    Returns:
        For each input that requires grad a matrix of shape (numel of the input, numel
        of the output), or (numel of the input, 1) with ``weights``.

    Raises:
        GradcheckError: wrong sizes or dtypes, or the two runs differ.
        AssertionError: a gradient with another number of elements than its input.
    """
    tensors = differentiated(inputs)
    count = output.numel() if weights is None else 1
    first = [_zeros(count, t) for t in tensors]
    run = _Rows(tensors, output, weights)
    for _ in run.fill(first, count):
        pass
    if check_grad_dtypes and not run.dtypes_fit:
        raise GradcheckError(texts.GRADIENT_DTYPE)
    if not run.sizes_fit:
        raise GradcheckError(texts.GRADIENT_SIZE)
    if nondet_tol < float("inf"):
        _demand_repeatable(run, first, count, nondet_tol)
    return [rows.t() for rows in first]


def _demand_repeatable(
    run: _Rows, first: list[torch.Tensor], count: int, tolerance: float
) -> None:
    """Take all rows once more, some at a time, and compare them with the first run."""
    block = min(count, BLOCK)
    again = [_zeros(block, t) for t in run.tensors]
    repeatable = True
    for start, stop in run.fill(again, block):
        for old, new in zip(first, again, strict=True):
            gap = (old[start:stop] - new[: stop - start]).abs()
            # A NaN compares false: it is for the comparison with the numbers to see.
            if gap.numel() and bool(gap.max() > tolerance):
                repeatable = False
            new.zero_()
    if not repeatable:
        raise GradcheckError(texts.not_reentrant(tolerance))


class _Rows:
    """Vector-Jacobian products, and whether the gradients had the inputs' form."""

    def __init__(
        self, tensors: list[Any], output: Any, weights: torch.Tensor | None
    ) -> None:
        self.tensors = tensors
        self.sizes_fit = True
        self.dtypes_fit = True
        self._output = output
        self._weights = weights
        self._forms = [(tuple(t.shape), t.dtype, torch.strided) for t in tensors]

    def fill(
        self, buffers: list[torch.Tensor], block: int
    ) -> Iterator[tuple[int, int]]:
        """Write row after row; gives (start, stop) whenever ``block`` are written.

        Rows without a gradient are left as they are, so buffers must hold zeros.
        """
        rows = [
            buffer.view(-1, *t.shape).unbind(0) if buffer.numel() else ()
            for buffer, t in zip(buffers, self.tensors, strict=True)
        ]
        start = stop = 0
        for cotangent in self._cotangents():
            gradients: tuple[Any, ...] = torch.autograd.grad(
                self._output,
                self.tensors,
                cotangent,
                retain_graph=True,
                allow_unused=True,
            )
            for k, gradient in enumerate(gradients):
                if gradient is None:
                    continue
                fitted = self._fitted(k, gradient)
                if rows[k]:
                    rows[k][stop - start].copy_(fitted)
            stop += 1
            if stop - start == block:
                yield start, stop
                start = stop
        if stop > start:
            yield start, stop

    def _cotangents(self) -> Iterator[Any]:
        if self._weights is not None:
            yield self._weights.reshape(self._output.shape)
            return
        unit = torch.zeros_like(self._output, memory_format=torch.contiguous_format)
        flat = unit.view(-1)
        for j in range(flat.numel()):
            # All of it: a backward may have written to the last one.
            flat.zero_()
            flat.select(0, j).fill_(1.0)
            yield unit

    def _fitted(self, k: int, gradient: Any) -> Any:
        shape, dtype, layout = self._forms[k]
        if (gradient.shape, gradient.dtype, gradient.layout) == (shape, dtype, layout):
            return gradient
        if gradient.shape != shape:
            self.sizes_fit = False
        elif gradient.dtype != dtype:
            self.dtypes_fit = False
        full = dense(gradient)
        if full.numel() != self.tensors[k].numel():
            raise AssertionError(
                texts.gradient_size(self.tensors[k].numel(), full.numel())
            )
        return full.reshape(shape)


def forward(
    func: Function,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    directions: Sequence[Direction] | None = None,
    check_grad_dtypes: bool = False,
) -> list[dict[int, torch.Tensor]]:
    """The columns of the Jacobians, by forward mode, one input at a time.

    Args:
        func: must use the tensors that it is passed.
        inputs: all of them; those that require grad get a tangent, and are passed
            without requiring grad.
        outputs: what ``func`` returned, for sizes and dtypes.
        directions: one an input that requires grad; None asks for each unit vector.
        check_grad_dtypes: whether tangents must be complex exactly where values are.

    Returns:
        [input][output]: a matrix of shape (numel of the input, numel of the output), or
        a flat vector with ``directions``; of the float outputs only.
    """
    zeros = [zero_tangent(t) for t in differentiated(inputs)]
    _demand_duals(differentiated(inputs), zeros)
    floats = {p: output for p, output in enumerate(outputs) if is_float(output)}
    out: list[dict[int, torch.Tensor]] = []
    for i, tensor in enumerate(differentiated(inputs)):
        direction = directions[i] if directions else None
        count = 1 if direction else tensor.numel()
        columns = {p: _zeros(count, output) for p, output in floats.items()}
        for k, tangent in _tangents(tensor, direction):
            tangents = [*zeros[:i], tangent, *zeros[i + 1 :]]
            results = pushed(
                func, inputs, tangents, check_grad_dtypes=check_grad_dtypes
            )
            for p, result in results.items():
                columns[p][k].copy_(result.detach().reshape(-1))
        out.append(
            {p: c.reshape(-1) for p, c in columns.items()} if direction else columns
        )
    return out


def pushed(
    func: Function,
    inputs: Sequence[Any],
    tangents: Sequence[Any],
    *,
    check_grad_dtypes: bool = False,
) -> dict[int, Any]:
    """The tangents of the float outputs that have one, by place.

    Args:
        func: takes the inputs.
        inputs: all of them.
        tangents: one for each input that requires grad; None passes a plain tensor.
        check_grad_dtypes: see ``forward``.
    """
    given = iter(tangents)
    with forward_ad.dual_level():
        arguments = [
            dual(value, next(given)) if wants_grad(value) else value for value in inputs
        ]
        out: dict[int, Any] = {}
        for p, output in enumerate(as_tuple(func(*arguments))):
            if not is_float(output):
                continue
            value, tangent = unpacked(output)
            if tangent is None:
                continue
            if check_grad_dtypes and value.is_complex() != tangent.is_complex():
                raise GradcheckError(texts.FORWARD_DTYPE)
            out[p] = tangent
        return out


def zero_tangent(tensor: Any) -> torch.Tensor:
    """A tangent of zeros for one input."""
    if tensor.layout is MKLDNN:
        raise ValueError(texts.MKLDNN_FORWARD)
    return torch.zeros_like(tensor)


def tangent_of(tensor: Any, direction: Direction) -> Any:
    """A direction in the shape and layout of one real input."""
    return with_entries(tensor, direction.parts[0])


def _tangents(tensor: Any, direction: Direction | None) -> Iterator[tuple[int, Any]]:
    if direction is not None:
        yield 0, tangent_of(tensor, direction)
        return
    n = tensor.numel()
    flat = torch.zeros(n, dtype=tensor.dtype, device=tensor.device)
    for k in positions(tensor).tolist() if is_sparse(tensor) else range(n):
        flat.zero_()
        flat[k] = 1.0
        yield k, with_entries(tensor, flat)


def _demand_duals(tensors: Sequence[Any], zeros: Sequence[Any]) -> None:
    """Let PyTorch refuse a sparse layout here, even if it stores no element."""
    with forward_ad.dual_level():
        for tensor, tangent in zip(tensors, zeros, strict=True):
            if is_sparse(tensor):
                dual(tensor, tangent)


def dual(tensor: Any, tangent: Any) -> Any:
    """The tensor, not requiring grad, with a tangent unless that is None."""
    base = tensor.detach()
    if tangent is None:
        return base
    return forward_ad.make_dual(base, tangent)  # type: ignore[no-untyped-call]


def unpacked(output: Any) -> tuple[Any, Any]:
    """The value of an output and its tangent, or None."""
    value, tangent = forward_ad.unpack_dual(output)  # type: ignore[no-untyped-call]
    return value, tangent


def _zeros(count: int, like: Any) -> torch.Tensor:
    """A matrix of ``count`` rows with an entry for each element of a tensor."""
    shape = (count, like.numel())
    return torch.zeros(shape, dtype=like.dtype, device=like.device)
