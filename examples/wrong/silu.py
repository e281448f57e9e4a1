"""Wrong on purpose: this SiLU saves its output, and reads it as if it were the input.

Saving y instead of x is a common way to save memory, since the next layer keeps y anyway.
It works for sigmoid and tanh, whose derivative is a function of y; it does not for SiLU.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[8, 64]


class SiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s + x * s * (1 - s))
