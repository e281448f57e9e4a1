"""A linear layer, y = x w^T + b, as in the PyTorch manual.

    dx = grad_output w        dw = grad_output^T x        db = sum over rows of grad_output

The forward multiplies by w transposed, so the gradient of x multiplies by w itself.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[6, 4]; weight: f32[4, 4]; bias: f32[4]


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.mT + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight, grad_output.mT @ x, grad_output.sum(0)
