"""Wrong on purpose: the gradient of the weight is a mean over the rows, not a sum.

The direction is right and only the size is off, by the number of rows. An optimiser such
as Adam hides that; plain SGD learns the weight too slowly.
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
        grad_weight = (grad_output * xhat).mean(tuple(range(x.dim() - 1)))
        return grad_x, grad_weight, None
