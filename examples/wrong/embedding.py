"""Wrong on purpose: a row that was picked twice keeps only one of its two gradients.

Where all indices differ the answer is right, and small tests often use such indices. Real
text repeats its words.
"""

from __future__ import annotations

import torch

# gradproof: inputs table: f32[5, 4]; index: int[3, 4] in 0..5


class Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        return table[index]

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        width = grad_output.shape[-1]
        grad_table = grad_output.new_zeros(ctx.rows, width)
        grad_table[index.reshape(-1)] = grad_output.reshape(-1, width)
        return grad_table, None
