"""Scaled dot-product attention, with the attention matrix computed again in the backward.

    p = softmax(q k^T / sqrt(d))        y = p v

    dv = p^T g                          g = grad_output
    dp = g v^T
    ds = p * (dp - sum(dp * p))         the softmax, row by row
    dq = ds k / sqrt(d)                 the scale stands in the backward too
    dk = ds^T q / sqrt(d)

The matrix p has a row and a column for every token. Keeping only q, k and v is what makes
long sequences fit.

Under autocast the products of the forward run in half precision, and so `grad_output` may
come in a dtype other than that of q, k and v: hence the `to` in the backward.
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
        return grad_s @ k * scale, grad_s.mT @ q * scale, grad_v
