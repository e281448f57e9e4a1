"""An independent witness narrows the bar of what it agrees with, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.space import Vector
from gradproof.verdict import Code, Estimate


def combine(estimate: Estimate, value: Vector, error: Vector) -> Estimate:
    """``estimate``, with its bar narrowed where the witness agrees with it.

    Args:
        estimate: what the differences gave, arrays of shape (m,).
        value: the witness's answer to the same question, shape (m,).
        error: the rounding that the witness may carry, shape (m,).

    Where |value − estimate| is within bar + error the entry takes the witness's value
    and the smaller error; where it is not, or where the estimate has no answer, the
    entry stays as it was. The bound is narrowed likewise, but never below the distance
    between the two answers.
    """
    with np.errstate(invalid="ignore"):
        apart = np.abs(value - estimate.value)
        agree = (estimate.code == Code.OK) & (apart <= estimate.bar + error)
        better = agree & (error < estimate.bar)
    return replace(
        estimate,
        value=np.where(better, value, estimate.value),
        bar=np.where(better, error, estimate.bar),
        bound=np.where(
            better, np.minimum(estimate.bound, 4.0 * error + apart), estimate.bound
        ),
    )
