"""Wrong on purpose: the backward forgets the scale 1 / sqrt(d).

The gradients of q and k are sqrt(d) times too large; that of v is right. Gradient
clipping and Adam hide it.
"""

from __future__ import annotations

import torch

# gradproof: inputs q: f32[2, 6, 8]; k: f32[2, 7, 8]; v: f32[2, 7, 4]


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        scale = q.shape[-1] ** -0.5
        return torch.softmax(q @ k.mT * scale, -1) @ v

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v = ctx.saved_tensors
        grad_output = grad_output.to(v.dtype)
        scale = q.shape[-1] ** -0.5
        p = torch.softmax(q @ k.mT * scale, -1)
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (grad_p * p).sum(-1, keepdim=True))
        return grad_s @ k, grad_s.mT @ q, grad_v
