"""A derivative from four or five values: ±h, ±2h and the value at 0.

The value is the five-point formula; its error is bounded by quantities that the same
values give: the change of the central difference from 2h to h, the disagreement of the
one-sided slopes of second order, and the noise. A single kink or jump anywhere between
−2h and 2h, other than at 0 itself, stays inside the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.numdiff.types import Array, Codes
from gradproof.verdict import Code

TINY = 2.0**-1022

# How much of each quantity goes into the bound, and into the bar.
BOUND = (1.5, 1.0, 12.0)
BAR = (0.4, 0.15, 2.5)


@dataclass(frozen=True, eq=False)
class Answer:
    """Estimates of any one shape; see ``gradproof.verdict.Estimate``."""

    value: Array
    bar: Array
    bound: Array
    noise: Array
    code: Codes
    left: Array
    right: Array


def step_ratio(unit: float) -> float:
    """The step over the reach that balances truncation and rounding, a power of two."""
    ratio = 2.0 ** np.round(np.log2(4.0 * unit ** (1.0 / 3.0)))
    return float(min(ratio, 0.5))


def central(
    steps: tuple[Array, Array, Array, Array],
    values: tuple[Array, Array, Array, Array],
    start: Array,
    unit: float,
    noise: Array | None = None,
) -> Answer:
    """Derivatives at 0 from values at the displacements ``steps`` = (h, −h, 2h, −2h).

    The displacements are those that were really made, shape (…, 1) or (…, m); values
    have shape (…, m), ``start`` and ``noise`` (r.m.s., where measured) shape (m,).
    """
    a1, b1, a2, b2 = steps
    f1, g1, f2, g2 = values
    with np.errstate(all="ignore"):
        d1 = (f1 - g1) / (a1 - b1)
        d2 = (f2 - g2) / (a2 - b2)
        right = 2.0 * (f1 - start) / a1 - (f2 - start) / a2
        left = 2.0 * (g1 - start) / b1 - (g2 - start) / b2
        value = d1 + (d1 - d2) / 3.0
        drift = np.abs(d1 - d2)
        gap = np.abs(right - left)
        size = np.fmax(np.fmax(np.abs(f2), np.abs(g2)), np.abs(start))
        floor = unit * size
        h = 0.5 * np.abs(a1 - b1)
        sampled = np.where(np.isfinite(gap), gap * h / 4.2, 0.0)
        sigma = np.maximum(floor, _pooled(sampled, floor) * floor)
        if noise is not None:
            sigma = np.maximum(sigma, noise)
        drift3, gap3, noise3 = BOUND
        bound = drift3 * drift + gap3 * gap + noise3 * sigma / h
        bar = BAR[0] * drift + BAR[1] * gap + BAR[2] * sigma / h
        round_ = 4.0 * unit * np.abs(value)
        s1, s2 = f1 - 2 * start + g1, f2 - 2 * start + g2
        code = np.zeros(np.shape(value), dtype=np.int8)
        visible = gap * h > 24.0 * sigma
        bent = visible & (gap > 0.05 * np.fmax(np.abs(right), np.abs(left)))
        ratio = np.abs(s2 / s1)
        code[bent & (ratio > 1.8) & (ratio < 2.3)] = Code.KINK
        change1, change2 = np.abs(f1 - g1), np.abs(f2 - g2)
        torn = (change1 > 100.0 * sigma) & (np.abs(change2 / change1 - 1.0) < 0.1)
        code[torn | (bent & (np.abs(ratio - 1.0) < 0.1))] = Code.JUMP
    code = _one_sided(code, value, right, left, start, f1, g1, f2, g2)
    only_right = np.isfinite(right) & ~np.isfinite(left)
    only_left = np.isfinite(left) & ~np.isfinite(right)
    if only_right.any() or only_left.any():
        with np.errstate(all="ignore"):
            first = np.where(only_right, (f1 - start) / a1, (g1 - start) / b1)
            one = np.where(only_right, right, left)
            either = only_right | only_left
            off = np.abs(one - first)
            value = np.where(either, one, value)
            h = np.where(only_right, np.abs(a1), np.abs(b1))
            bound = np.where(either, 2 * off + 4 * noise3 * sigma / h, bound)
            bar = np.where(either, 0.5 * off + 10 * sigma / h, bar)
    answered = np.isfinite(value)
    bound = np.where(answered, bound + round_ + TINY, np.inf)
    bar = np.where(answered, np.minimum(bar + round_ + TINY, bound), np.inf)
    value = np.where(answered, value, np.nan)
    return Answer(value, bar, bound, sigma, code, left, right)


def _pooled(sampled: Array, floor: Array) -> float:
    """Noise over its floor, from fourth differences of all entries together."""
    floor = np.broadcast_to(floor, sampled.shape)
    known = (floor > TINY) & np.isfinite(floor) & np.isfinite(sampled) & (sampled > 0)
    if not known.any():
        return 1.0
    return 1.0 + float(np.median(sampled[known] / floor[known])) / 0.67


def _one_sided(
    code: Codes,
    value: Array,
    right: Array,
    left: Array,
    start: Array,
    *values: Array,
) -> Codes:
    """Codes of entries where a side, or the value at 0, is not finite."""
    lost = ~np.isfinite(value)
    code = np.where(lost, Code.OK, code).astype(np.int8)
    nowhere = ~np.isfinite(right) & ~np.isfinite(left)
    code[nowhere | ~np.isfinite(np.broadcast_to(start, code.shape))] = Code.DOMAIN
    return code
