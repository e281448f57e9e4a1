"""A forward and a backward in NumPy, with no framework: a filter over a signal.

    y[i] = sum over j of w[j] * x[i + k - 1 - j]        (np.convolve, k = len(w))

A convolution flips the filter. Its adjoint, which sends gradients back, is the
correlation: the same sum without the flip.

    import gradproof
    gradproof.check(forward, (x, w), vjp=backward)

`backward` receives the gradient of y first, then the arguments of `forward`, and returns
one gradient for each of these.
"""

from __future__ import annotations

import numpy as np

# gradproof: inputs x: f64[24]; w: f64[5]


def forward(x, w):
    return np.convolve(x, w, mode="valid")


def backward(grad_y, x, w):
    grad_x = np.correlate(grad_y, w, mode="full")
    grad_w = np.correlate(x, grad_y, mode="valid")[::-1]
    return grad_x, grad_w
