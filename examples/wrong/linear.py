"""Wrong on purpose: the gradient of x multiplies by the weight the wrong way round.

With a weight that is not square this raises an error. With a square one, as in a hidden
layer, it runs and is wrong.
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
        return grad_output @ weight.mT, grad_output.mT @ x, grad_output.sum(0)
