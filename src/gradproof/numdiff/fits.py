"""Least-squares fits over windows of steps and orders, and which of them to trust."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.numdiff import stencil
from gradproof.numdiff.quick import MACHINE, TINY
from gradproof.numdiff.types import Array, Bools

KAPPA = 2.5  # half width of the confidence intervals, in standard errors
LEAST = 3  # degrees of freedom of a fit that is believed


@dataclass(frozen=True, eq=False)
class Slope:
    """The slope chosen for each output, its standard error and what bounds its bias.

    ``window`` is the index of the largest step used, −1 where nothing was chosen;
    ``agreed`` that of the window twice as large which still agreed.
    """

    value: Array
    error: Array
    bias: Array
    window: np.ndarray[tuple[int], np.dtype[np.int64]]
    agreed: np.ndarray[tuple[int], np.dtype[np.int64]]


def typical(slopes: Array, valid: Bools) -> Array:
    """The median of each column, of what is valid; 0 where nothing is."""
    some = valid.any(axis=0)
    out: Array = np.nanmedian(
        np.where(valid, slopes, np.where(some, np.nan, 0.0)), axis=0
    )
    return np.where(np.isfinite(out), out, 0.0)


def fits(
    family: stencil.Family, top: float, data: Array, variance: Array
) -> tuple[Array, Array]:
    """Slopes of all windows and orders, shape (k, p, m), and their standard errors."""
    w = family.slope / top
    arithmetic = 2.0 * MACHINE * (np.abs(w) @ np.abs(data))
    error = np.sqrt(w**2 @ variance) * excess(family, data, variance)
    return w @ data, np.hypot(error, arithmetic)


def underrated(
    family: stencil.Family, data: Array, variance: Array, valid: Bools
) -> Array:
    """By how much even the best of the long fits exceeds the noise of the table.

    Rounding errors at equal spacing may follow a pattern; those of a ladder do not.
    """
    long = (family.freedom[:, :, None] >= LEAST) & valid[:, None, :]
    over = np.where(long, excess(family, data, variance), np.inf)
    out: Array = over.min(axis=(0, 1), initial=np.inf)
    return np.where(np.isfinite(out), out, 1.0)


def excess(family: stencil.Family, data: Array, variance: Array) -> Array:
    """By how much residuals exceed the noise that was measured; ≥ 1, (k, p, m)."""
    freedom = family.freedom[:, :, None]
    out: Array = np.sqrt(np.maximum(1.0, chi2(family, data, variance)))
    return np.where(freedom >= 1, out * (1.0 + 4.0 / np.maximum(freedom, 1)), np.inf)


def chi2(family: stencil.Family, data: Array, variance: Array) -> Array:
    """Squared residuals over the noise that was measured, by degree of freedom.

    The noise of a window is that of its noisiest value: the fits are not weighted.
    """
    windows, n, most = family.basis.shape
    inside = np.arange(n) >= np.arange(windows)[:, None]
    rest = np.where(inside[:, :, None], data * family.weights[:, None], 0.0)
    square = np.empty((windows, len(family.terms), data.shape[1]))
    for term in range(most):
        q = family.basis[:, :, term]
        rest -= q[:, :, None] * np.matmul(q[:, None, :], rest)
        if term + 1 in family.terms:
            square[:, family.terms.index(term + 1)] = (rest * rest).sum(axis=1)
    loudest = np.maximum.accumulate(variance[::-1], axis=0)[::-1][:windows]
    freedom = family.freedom[:, :, None]
    return np.asarray(
        square / (np.maximum(loudest, TINY)[:, None] * np.maximum(freedom, 1.0))
    )


def select(
    h: Array, estimate: Array, error: Array, freedom: Array, allowed: Bools
) -> Slope:
    """The order and window of least standard error among those that agree."""
    n = len(h)
    usable = np.isfinite(error) & allowed[:, None, :] & np.isfinite(estimate)
    usable &= (freedom >= LEAST)[:, :, None]
    low = np.where(usable, estimate - KAPPA * error, -np.inf)
    high = np.where(usable, estimate + KAPPA * error, np.inf)
    low = np.maximum.accumulate(low[::-1], axis=0)[::-1]
    high = np.minimum.accumulate(high[::-1], axis=0)[::-1]
    agree = usable & (low <= high)
    half = np.array([np.argmax(h <= h[k] / 2) or k for k in range(n)])
    last = np.where(usable, np.arange(n)[:, None, None], -1).max(axis=0)
    backed = half[:, None, None] <= last - 2  # by two windows smaller still
    worth = np.where(agree & backed, error, np.inf)
    first = worth.argmin(axis=0)
    chosen = half[first]
    exists = np.isfinite(worth.min(axis=0))
    at = np.where(exists, chosen, 0)[None]
    errors = np.where(exists, np.take_along_axis(error, at, axis=0)[0], np.inf)
    order = np.argmin(errors, axis=0)[None]

    def pick(of: Array) -> Array:
        out: Array = np.take_along_axis(of, order, axis=0)[0]
        return out

    values = np.take_along_axis(estimate, at, axis=0)[0]
    larger = np.take_along_axis(estimate, first[None], axis=0)[0]
    out = pick(errors)
    known = np.isfinite(out)
    value = pick(values)
    return Slope(
        np.where(known, value, np.nan),
        out,
        np.where(known, np.abs(value - pick(larger)), np.inf),
        np.where(known, pick(at[0]), -1),
        np.where(known, pick(first), -1),
    )
