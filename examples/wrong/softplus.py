"""Wrong on purpose: this Softplus forgets `grad_output`.

`Softplus.apply(x).sum().backward()` gives the right answer all the same, because the sum
sends a gradient of 1. Any other loss trains on a wrong gradient.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[8, 64]


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.logaddexp(x, torch.zeros_like(x))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.sigmoid(x)
