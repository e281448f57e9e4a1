"""Wrong on purpose: the length is kept on the class, where the next call overwrites it.

One forward followed by one backward is right, and that is what a test does. A network
that uses the layer twice gets the length of the second call in both backwards.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[6, 5]


class UnitVector(torch.autograd.Function):
    length = None

    @staticmethod
    def forward(ctx, x):
        UnitVector.length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        y = x / UnitVector.length
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        along = (grad_output * y).sum(-1, keepdim=True)
        return (grad_output - y * along) / UnitVector.length
