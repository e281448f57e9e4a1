"""Layer normalisation over the last axis, with weight and bias.

    xhat = (x - mean) / sqrt(var + eps)        y = xhat * weight + bias

Both mean and var depend on every x of the row, so the gradient of x has three terms, one
for each way from x to y:

    g  = grad_output * weight
    dx = (g - mean(g) - xhat * mean(g * xhat)) / sqrt(var + eps)

The weight and the bias are shared by all rows; their gradients are sums over the rows.
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
        grad_x = rstd * (g - g.mean(-1, keepdim=True) - xhat * along)
        rows = tuple(range(x.dim() - 1))
        grad_weight = (grad_output * xhat).sum(rows)
        grad_bias = grad_output.sum(rows)
        return grad_x, grad_weight, grad_bias, None
