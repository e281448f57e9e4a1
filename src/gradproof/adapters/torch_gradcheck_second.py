"""The gradient as a function of its own, for ``gradgradcheck``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradproof.adapters.torch_gradcheck_tensors import (
    as_tuple,
    real_dtype,
    wants_grad,
)

Function = Callable[..., Any]


def random_cotangents(outputs: Sequence[Any], *, contiguous: bool) -> tuple[Any, ...]:
    """Uniform in [-1, 1), requiring grad; the global generator is only read."""
    generator = torch.Generator().manual_seed(torch.initial_seed())
    out = []
    for output in outputs:
        # Every other element of a wider tensor is not contiguous.
        every = 1 if contiguous or output.numel() < 2 else 2
        shape = list(output.shape)
        if every == 2:
            shape[-1] *= 2
        drawn = torch.empty(shape, dtype=real_dtype(output.dtype), device="cpu")
        drawn.uniform_(-1, 1, generator=generator)
        if output.dtype.is_complex:
            other = torch.empty_like(drawn).uniform_(-1, 1, generator=generator)
            drawn = torch.complex(drawn, other)
        placed = drawn.to(output.device)
        out.append((placed[..., ::2] if every == 2 else placed).requires_grad_())
    return tuple(out)


def gradient_of(
    func: Function, inputs: tuple[Any, ...], cotangents: tuple[Any, ...]
) -> Function:
    """The gradient as a function of the inputs, then the cotangents.

    Inputs without a gradient have no output in it. What it is passed is made to require
    grad where the originals did, since forward mode is asked with detached tensors.
    """
    wanted = [wants_grad(value) for value in (*inputs, *cotangents)]
    split = len(inputs)

    def gradient(*arguments: Any) -> tuple[Any, ...]:
        restored = [
            value.requires_grad_() if want else value
            for value, want in zip(arguments, wanted, strict=True)
        ]
        given = restored[:split]
        outputs = [out for out in as_tuple(func(*given)) if out.requires_grad]
        found: tuple[Any, ...] = torch.autograd.grad(
            outputs,
            [value for value, want in zip(given, wanted, strict=False) if want],
            restored[split:],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(g for g in found if g is not None)

    return gradient
