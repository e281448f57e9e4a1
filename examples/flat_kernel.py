"""A gate, y = sigmoid(a) * b, by a kernel that walks memory from end to end.

A kernel in CUDA, Triton or C gets a pointer and a length. It is right only when the
numbers lie one after another, and nothing promises that of a tensor that comes in:
`grad_output` is transposed, sliced or expanded as soon as the next layer does so (`.t()`,
`torch.cat`, `.sum()`). `contiguous()` costs nothing when the numbers already lie well.

`pointer` plays the kernel's view of memory here.
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
        g = pointer(grad_output.contiguous())
        s = torch.sigmoid(pointer(a))
        grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
        pointer(grad_a).copy_(g * pointer(b) * s * (1 - s))
        pointer(grad_b).copy_(g * s)
        return grad_a, grad_b
