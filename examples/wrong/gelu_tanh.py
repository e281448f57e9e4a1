"""Wrong on purpose: the forward is the tanh form of GELU, the backward the exact form's.

The two functions are so close (within 0.0005) that a loose comparison sees no difference,
but the gradient is that of another function.
"""

from __future__ import annotations

import math

import torch

# gradproof: inputs x: f32[8, 64]

SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


class GeluTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.tanh(SCALE * (x + CUBIC * x**3)))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        pdf = torch.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
        return grad_output * (cdf + x * pdf)
