"""A complex gain, y = gain * z: the smallest rule that shows where the conjugates go.

PyTorch's gradient of a real loss L is the direction of steepest ascent, dL/da + i dL/db
for z = a + ib. For a product it follows that

    dz = grad_output * conj(gain)        dgain = grad_output * conj(z)

With real inputs the conjugate does nothing, so only complex inputs can prove it.
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
        return grad_output * gain.conj(), grad_output * z.conj()
