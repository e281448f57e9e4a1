"""The largest value of each row and where it stands: two outputs, one of them an index.

An index has no gradient; `mark_non_differentiable` says so. The backward still receives
one gradient per output (that of the index is all zeros), and sends the gradient of the
value to the place that won. No other entry of the row had a say.
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
        (index,) = ctx.saved_tensors
        grad_x = grad_value.new_zeros(ctx.shape)
        return grad_x.scatter(-1, index.unsqueeze(-1), grad_value.unsqueeze(-1))
