"""Rules with opaque forwards (NumPy inside) and mistakes planted at named places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Grads = list[torch.Tensor]
Plant = Callable[[Grads], Grads]


def _softmax(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(a - a.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _softmax_back(g: torch.Tensor, x: torch.Tensor) -> Grads:
    p = x.softmax(-1)
    return [p * (g - (g * p).sum(-1, keepdim=True))]


def _running(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.cumsum(np.sin(a).ravel()).reshape(a.shape)


def _running_back(g: torch.Tensor, x: torch.Tensor) -> Grads:
    total = g.flatten().flip(0).cumsum(0).flip(0)
    return [total.reshape(x.shape) * x.cos()]


def _five(*arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    a, b, c, d, e = arrays
    return np.asarray(np.sin(a) + b * c + np.tanh(d) * e + np.roll(a, 1) * b)


def _five_back(g: torch.Tensor, *xs: torch.Tensor) -> Grads:
    a, b, c, d, e = xs
    return [
        g * a.cos() + torch.roll(g * b, -1),
        g * (c + torch.roll(a, 1)),
        g * b,
        g * e * (1 - d.tanh() ** 2),
        g * d.tanh(),
    ]


KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Grads]]] = {
    "softmax": (_softmax, _softmax_back),
    "running": (_running, _running_back),
    "sin": (np.sin, lambda g, x: [g * x.cos()]),
    "five": (_five, _five_back),
}


def opaque(kind: str, plant: Plant = lambda grads: grads) -> type:
    """A Function whose forward runs in NumPy, so that no witness sees its body."""
    forward_, backward_ = KINDS[kind]

    class Op(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
            xs = (x, *more)
            ctx.save_for_backward(*xs)
            return torch.from_numpy(
                np.asarray(forward_(*(x.detach().numpy() for x in xs)))
            )

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            grads = plant(backward_(g, *ctx.saved_tensors))
            return tuple(grads) if len(grads) > 1 else grads[0]

    return Op


def scaled(index: Any, factor: float, leaf: int = 0) -> Plant:
    """One part of one gradient multiplied by a factor."""

    def plant(grads: Grads) -> Grads:
        part = grads[leaf].clone()
        part[index] = part[index] * factor
        return [part if k == leaf else g for k, g in enumerate(grads)]

    return plant


def banded(reach: int, factor: float) -> Plant:
    """The band |i − j| ≤ reach multiplied by a factor."""

    def plant(grads: Grads) -> Grads:
        n, m = grads[0].shape[-2:]
        apart = (torch.arange(n)[:, None] - torch.arange(m)[None, :]).abs()
        return [torch.where(apart <= reach, grads[0] * factor, grads[0])]

    return plant
