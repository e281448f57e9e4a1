"""Wrong on purpose: x stands twice in x^T x, and this backward differentiates only one.

The missing term, x u w^T, comes from the right-hand factor of the product.
"""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

# gradproof: inputs x: f32[8, 3]; y: f32[8, 2]; damping: 0.5


class RidgeSolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, damping=0.5):
        identity = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        factor = torch.linalg.cholesky(x.mT @ x + damping * identity)
        w = torch.cholesky_solve(x.mT @ y, factor)
        ctx.save_for_backward(x, y, w, factor)
        return w

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        x, y, w, factor = ctx.saved_tensors
        u = torch.cholesky_solve(grad_output, factor)
        residual = y - x @ w
        grad_x = residual @ u.mT
        return grad_x, x @ u, None
