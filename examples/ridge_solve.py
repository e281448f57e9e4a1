"""Ridge regression solved by a Cholesky factor, which the backward uses again.

    G = x^T x + damping * I        w = G^-1 x^T y

With u = G^-1 g (g = grad_output; one more solve with the same factor) and the residual
r = y - x w, differentiating G w = x^T y gives

    dx = r u^T - x u w^T        dy = x u

The factor is an intermediate value: saved tensors that are neither inputs nor outputs have
no graph, so a second derivative through this backward would be silently wrong. The
decorator `once_differentiable` turns that into an error.
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
        grad_x = residual @ u.mT - x @ u @ w.mT
        return grad_x, x @ u, None
