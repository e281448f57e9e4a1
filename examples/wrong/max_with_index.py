"""Wrong on purpose: the gradient goes to every entry of the row, as if this were a sum.

Only the largest entry decides the output; nudging the others changes nothing.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[6, 9]


class MaxWithIndex(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        value, index = x.max(-1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.shape = x.shape
        return value, index

    @staticmethod
    def backward(ctx, grad_value, _grad_index):
        return grad_value.unsqueeze(-1).expand(ctx.shape)
