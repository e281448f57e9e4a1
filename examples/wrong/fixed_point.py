"""Wrong on purpose: the backward solves the system of the forward, not its transpose.

A backward multiplies by the transposed Jacobian. Where w is symmetric and all slopes are
equal the two systems are the same, so a toy test passes.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[4, 6]; weight: f32[6, 6]*0.1


class FixedPoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        z, settled = torch.zeros_like(x), 2 * torch.finfo(x.dtype).eps
        for _ in range(200):
            last, z = z, torch.tanh(z @ weight.mT + x)
            if (z - last).abs().max() <= settled:
                break
        ctx.save_for_backward(weight, z)
        return z

    @staticmethod
    def backward(ctx, grad_output):
        weight, z = ctx.saved_tensors
        slope = 1 - z**2
        identity = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        system = identity - weight * slope.unsqueeze(-2)
        u = torch.linalg.solve(system, grad_output.unsqueeze(-1)).squeeze(-1)
        grad_x = slope * u
        return grad_x, grad_x.mT @ z
