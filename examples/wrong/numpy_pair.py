"""Wrong on purpose: the gradient of x is sent back by a convolution, filter flipped.

With a symmetric filter, such as a blur, a flip changes nothing and every test passes.
"""

from __future__ import annotations

import numpy as np

# gradproof: inputs x: f64[24]; w: f64[5]


def forward(x, w):
    return np.convolve(x, w, mode="valid")


def backward(grad_y, x, w):
    grad_x = np.convolve(grad_y, w, mode="full")
    grad_w = np.correlate(x, grad_y, mode="valid")[::-1]
    return grad_x, grad_w
