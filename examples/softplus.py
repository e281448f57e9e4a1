"""Softplus, y = log(1 + exp(x)): the smallest useful custom gradient.

    dy/dx = sigmoid(x)

`torch.logaddexp(x, 0)` computes the same as `log(1 + exp(x))` but does not overflow for
large x. The backward receives `grad_output`, the gradient of the loss with respect to y,
and must multiply by it: that is the chain rule.
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
        return grad_output * torch.sigmoid(x)
