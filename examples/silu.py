"""SiLU (swish), y = x * sigmoid(x), which saves its input and nothing else.

    s = sigmoid(x)        dy/dx = s + x * s * (1 - s)

PyTorch's own graph for `x * torch.sigmoid(x)` keeps both x and s alive until the backward
runs. Computing s again there halves the memory, which is why people write this one.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[8, 64]


class SiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s + x * s * (1 - s))
