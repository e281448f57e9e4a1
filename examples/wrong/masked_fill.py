"""Wrong on purpose: the backward writes zeros into `grad_output` itself.

The gradient that it returns is right. But in `f(x) + g(x)` both branches receive the same
tensor, and g finds zeros that f put there.
"""

from __future__ import annotations

import torch

# gradproof: inputs x: f32[6, 8]; mask: bool[6, 8]; fill: -4.0


class MaskedFill(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask, fill=-4.0):
        ctx.save_for_backward(mask)
        return x.masked_fill(mask, fill)

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        return grad_output.masked_fill_(mask, 0), None, None
