"""The noise of a function's values.

At steps that the function can feel, from a table of differences: Moré and Wild,
"Estimating computational noise", SIAM J. Sci. Comput. 33 (2011), section 3: a smooth
function's differences fade with the order, those of noise do not. Among neighbours, where
every function is a parabola, from what a cubic leaves unexplained: at equal spacing the
rounding errors of a nearly linear function form a ramp, which a table does not see.
"""

from __future__ import annotations

import numpy as np

from gradproof.numdiff.types import Array

CUBIC = 4  # terms
AGREE = 4.0  # three successive levels within this factor are called noise


def table(values: Array) -> Array:
    """Root mean square noise of each column of ``values`` (equally spaced rows, ≥ 7).

    Unlike the original, no exit is taken: where no three levels agree, the smallest
    level is returned, and where values are not finite, NaN.
    """
    n = len(values)
    levels = []
    gamma = 1.0
    t = values
    for k in range(1, n - 1):
        t = t[1:] - t[:-1]
        gamma *= k / (2.0 * (2.0 * k - 1.0))
        levels.append(np.sqrt(gamma * np.mean(t * t, axis=0)))
    sigma = np.array(levels[1:])  # from second differences on
    out: Array = sigma.min(axis=0)
    for k in range(len(sigma) - 3, -1, -1):
        three = sigma[k : k + 3]
        agree = three.max(axis=0) <= AGREE * three.min(axis=0)
        out = np.where(agree, sigma[k], out)
    return out


def scatter(t: Array, values: Array) -> Array:
    """Root mean square noise of each column of ``values``, at the irregular ``t``.

    What a cubic leaves; NaN where values are not finite.
    """
    x = t / np.abs(t).max()
    q, _ = np.linalg.qr(x[:, None] ** np.arange(CUBIC))
    middle = values - values[len(values) // 2]
    rest = middle - q @ (q.T @ middle)
    out: Array = np.sqrt((rest * rest).sum(axis=0) / (len(t) - CUBIC))
    return out
