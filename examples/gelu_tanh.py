"""GELU in its tanh form (Hendrycks and Gimpel, 2016), recomputed in the backward.

    u = sqrt(2/pi) * (x + 0.044715 x^3)        y = x/2 * (1 + tanh(u))

The product rule gives two terms, and tanh' = 1 - tanh^2:

    dy/dx = (1 + tanh(u)) / 2  +  x/2 * (1 - tanh(u)^2) * du/dx
    du/dx = sqrt(2/pi) * (1 + 3 * 0.044715 x^2)
"""

from __future__ import annotations

import math

import torch

# gradproof: inputs x: f32[8, 64]

SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


class GeluTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.tanh(SCALE * (x + CUBIC * x**3)))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        t = torch.tanh(SCALE * (x + CUBIC * x**3))
        slope = SCALE * (1 + 3 * CUBIC * x**2)
        return grad_output * 0.5 * ((1 + t) + x * (1 - t**2) * slope)
