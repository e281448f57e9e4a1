"""Entries under a mask are replaced by a number, as before the softmax of an attention.

A replaced entry no longer depends on x, so its gradient is 0. The backward makes a new
tensor: `grad_output` is not its own to change, since the same tensor may be on its way to
another branch of the network.
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
        return grad_output.masked_fill(mask, 0), None, None
