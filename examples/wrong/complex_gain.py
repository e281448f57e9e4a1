"""Wrong on purpose: one of the two conjugates is missing.

The rule for real numbers was kept as it was. It is right for every real input.
"""

from __future__ import annotations

import torch

# gradproof: inputs z: c64[4, 8]; gain: c64[4, 8]


class ComplexGain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, gain):
        ctx.save_for_backward(z, gain)
        return z * gain

    @staticmethod
    def backward(ctx, grad_output):
        z, gain = ctx.saved_tensors
        return grad_output * gain, grad_output * z.conj()
