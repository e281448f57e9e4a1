"""The noise of a function's values, from a table of their differences.

Moré and Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33 (2011), section
3: a smooth function's differences fade with the order, those of noise do not.
"""

from __future__ import annotations

import numpy as np

from gradproof.numdiff.types import Array

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
