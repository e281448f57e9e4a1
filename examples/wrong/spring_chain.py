"""Wrong on purpose: the adjoint reads the state after each step, not the one before it.

The force was computed at the x before the step. Being off by one step is a small error
when dt is small, so a plot of the gradient looks right.
"""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

# gradproof: inputs x: f32[8]*0.5; v: f32[8]; stiffness: f32[9]*0.2 + 1; dt: 0.1; steps: 12


def between(x):
    """Differences of neighbours, with a wall at 0 before the first and after the last."""
    return torch.diff(torch.nn.functional.pad(x, (1, 1)))


class SpringChain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, v, stiffness, dt=0.1, steps=12):
        path = []
        for _ in range(steps):
            stretch = between(x)
            v = v + dt * torch.diff(stiffness * (stretch + stretch**3))
            x = x + dt * v
            path.append(x)
        ctx.save_for_backward(stiffness, torch.stack(path))
        ctx.dt = dt
        return x, v

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_x, grad_v):
        stiffness, path = ctx.saved_tensors
        grad_stiffness = torch.zeros_like(stiffness)
        for x in path.flip(0):
            stretch = between(x)
            grad_v = grad_v + ctx.dt * grad_x
            pull = between(grad_v)
            slope = stiffness * (1 + 3 * stretch**2)
            grad_x = grad_x + ctx.dt * torch.diff(slope * pull)
            grad_stiffness = grad_stiffness - ctx.dt * pull * (stretch + stretch**3)
        return grad_x, grad_v, grad_stiffness, None, None
