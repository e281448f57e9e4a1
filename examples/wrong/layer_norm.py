"""Wrong on purpose: the gradient of x lacks the term that comes through the mean.

x acts on y in three ways: directly, through the variance, and through the mean. This
backward has only the first two.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[6, 32]; weight: f32[32]; bias: f32[32]; eps: 1e-5


def normalised(x, eps):
    centred = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return centred * rstd, rstd


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps=1e-5):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        xhat, _ = normalised(x, eps)
        return xhat * weight + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        xhat, rstd = normalised(x, ctx.eps)
        g = grad_output * weight
        along = (g * xhat).mean(-1, keepdim=True)
        grad_x = rstd * (g - xhat * along)
        rows = tuple(range(x.dim() - 1))
        grad_weight = (grad_output * xhat).sum(rows)
        grad_bias = grad_output.sum(rows)
        return grad_x, grad_weight, grad_bias, None
