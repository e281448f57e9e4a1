"""Rows scaled to length 1, y = x / |x|.

Moving x along itself does not change y, so the gradient has no part along y:

    dx = (grad_output - y (y . grad_output)) / |x|

What the backward needs is kept on `ctx`, which belongs to one call. Two calls before the
first backward, as when a layer is used twice in a network, each find their own values.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[6, 5]


class UnitVector(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        y = x / length
        along = (grad_output * y).sum(-1, keepdim=True)
        return (grad_output - y * along) / length
