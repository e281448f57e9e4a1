"""RMS normalisation (Zhang and Sennrich, 2019) over the last axis, with a weight.

    r = 1 / sqrt(mean(x^2) + eps)        y = x * r * weight

With g = grad_output * weight and xhat = x * r, the gradients are

    dx = r * (g - xhat * mean(g * xhat))
    dweight = sum over the rows of grad_output * xhat
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[6, 32]; weight: f32[32]; eps: 1e-6


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + ctx.eps)
        xhat = x * r
        g = grad_output * weight
        grad_x = r * (g - xhat * (g * xhat).mean(-1, keepdim=True))
        grad_weight = (grad_output * xhat).sum(tuple(range(x.dim() - 1)))
        return grad_x, grad_weight, None
