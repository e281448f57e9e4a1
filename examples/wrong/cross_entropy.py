"""Wrong on purpose: the backward forgets the label smoothing.

`softmax(logits) - onehot` is what everybody knows by heart; it belongs to a loss without
smoothing. The loss still goes down, towards the wrong optimum.
"""

from __future__ import annotations

import torch

# gradproof: inputs logits: f32[8, 10]; target: int[8] in 0..10; smoothing: 0.1


def smoothed(target, logits, smoothing):
    classes = logits.shape[-1]
    q = torch.full_like(logits, smoothing / classes)
    hot = torch.nn.functional.one_hot(target, classes).to(logits.dtype)
    return q + (1 - smoothing) * hot


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, smoothing=0.1):
        ctx.save_for_backward(logits, target)
        q = smoothed(target, logits, smoothing)
        return -(q * torch.log_softmax(logits, -1)).sum(-1).mean()

    @staticmethod
    def backward(ctx, grad_output):
        logits, target = ctx.saved_tensors
        q = smoothed(target, logits, 0.0)
        rows = logits.shape[0]
        grad_logits = grad_output * (torch.softmax(logits, -1) - q) / rows
        return grad_logits, None, None
