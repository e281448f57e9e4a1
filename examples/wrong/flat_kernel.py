"""Wrong on purpose: the kernel reads `grad_output` as if its numbers lay in a row.

A test that calls `.backward(torch.ones_like(y))` hands it numbers in a row. The next
layer, if it transposes or slices, does not.
"""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

# gradproof: inputs a: f32[6, 8]; b: f32[6, 8]


def pointer(t):
    """The numbers of ``t`` as a kernel finds them: from its start, one after another."""
    return torch.as_strided(t, (t.numel(),), (1,))


class FlatGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.contiguous(), b.contiguous()
        ctx.save_for_backward(a, b)
        y = torch.empty_like(a)
        pointer(y).copy_(torch.sigmoid(pointer(a)) * pointer(b))
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        g = pointer(grad_output)
        s = torch.sigmoid(pointer(a))
        grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
        pointer(grad_a).copy_(g * pointer(b) * s * (1 - s))
        pointer(grad_b).copy_(g * s)
        return grad_a, grad_b
