"""An embedding: rows of a table, picked by index. Its backward is a scatter.

    y[i] = table[index[i]]        dtable[r] = sum of grad_output[i] where index[i] = r

A row that was picked twice gets both gradients: they must be added. `index_add` adds;
`grad_table[index] = grad_output` keeps only one of them.
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
        flat = grad_output.reshape(-1, width)
        return grad_table.index_add(0, index.reshape(-1), flat), None
