"""A derivative from a whole ladder of steps, each output judged on its own.

For every window of steps and every order a least-squares fit gives a slope and its
standard error. Starting from the smallest steps, a window is trusted as long as its
slope agrees with all smaller ones (intersection of confidence intervals: Goldenshluger
and Nemirovski, Math. Methods Statist. 6 (1997); Lepski's principle); then half that
window is used, so that its truncation error lies well below the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.numdiff import stencil
from gradproof.numdiff.quick import TINY, Answer
from gradproof.numdiff.sampling import Samples
from gradproof.numdiff.types import Array, Bools
from gradproof.verdict import Code

KAPPA = 2.5  # half width of the confidence intervals, in standard errors
KINKED = 4.0  # a slope jump beyond this many standard errors closes a window
CHUNK = 256  # outputs judged together


@dataclass(frozen=True, eq=False)
class Slope:
    """The slope chosen for each output, its standard error and what bounds its bias."""

    value: Array
    error: Array
    bias: Array
    window: np.ndarray[tuple[int], np.dtype[np.int64]]


def judge(s: Samples) -> Answer:
    """Value, bar, bound and code of every output."""
    m = len(s.start)
    parts = [_judge(_part(s, slice(i, i + CHUNK))) for i in range(0, m, CHUNK)]
    if len(parts) == 1:
        return parts[0]
    names = ("value", "bar", "bound", "noise", "code", "left", "right")
    return Answer(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))


def _part(s: Samples, which: slice) -> Samples:
    return Samples(
        s.h, s.start[which], s.right[:, which], s.left[:, which], s.sigma[which], s.unit
    )


def _judge(s: Samples) -> Answer:
    with np.errstate(all="ignore"):
        both, gap_error = _both(s)
        right = _side(s, s.right, s.h)
        left = _side(s, s.left, -s.h)
        return _answer(s, both, gap_error, right, left)


def _answer(
    s: Samples, both: Slope, gap_error: Array, right: Slope, left: Slope
) -> Answer:
    value, error, bias = both.value, both.error, both.bias
    bound = 8.0 * error + 3.0 * bias + gap_error
    bar = 2.5 * error + bias
    two = np.isfinite(bound)
    for one, other in ((right, left), (left, right)):
        alone = ~two & np.isfinite(one.error) & ~np.isfinite(other.error)
        value = np.where(alone, one.value, value)
        bound = np.where(alone, 10.0 * one.error + 4.0 * one.bias, bound)
        bar = np.where(alone, 3.0 * one.error + one.bias, bar)
    code = np.zeros(len(value), dtype=np.int8)
    size = np.abs(value)
    apart = np.abs(right.value - left.value)
    side_bound = 6.0 * (right.error + left.error) + 3.0 * (right.bias + left.bias)
    kink = (apart > side_bound) & (bound > 0.125 * apart)
    code[kink] = Code.KINK
    code[_torn(s)] = Code.JUMP
    reach = s.h[0]
    seen = np.nanmax(
        np.abs(np.concatenate([s.right, s.left]) - s.start), axis=0, initial=0.0
    )
    lost = bound * reach > np.maximum(np.abs(s.start), seen)
    code[lost & (code == Code.OK) & (bound > 0.5 * size)] = Code.NOISE
    unknown = ~np.isfinite(value) | ~np.isfinite(bound)
    code[unknown] = Code.DOMAIN
    known = ~unknown & ((code == Code.OK) | (code == Code.NOISE))
    rounding = 4.0 * s.unit * size + TINY
    return Answer(
        value=np.where(unknown, np.nan, value),
        bar=np.where(known, bar + rounding, np.inf),
        bound=np.where(known, bound + rounding, np.inf),
        noise=s.sigma,
        code=code,
        left=left.value,
        right=right.value,
    )


def _torn(s: Samples) -> Bools:
    """Outputs whose change does not fade over the four smallest steps."""
    out = np.zeros(len(s.start), dtype=bool)
    for values in (s.right, s.left):
        change = np.abs(values[-4:] - s.start)
        low, high = change.min(axis=0), change.max(axis=0)
        out |= (low > 20.0 * s.sigma) & (high < 1.2 * low)
    return out


def _valid(values: Array) -> Bools:
    """Windows (by their largest step) in which all values are finite."""
    finite = np.isfinite(values)
    out: Bools = np.logical_and.accumulate(finite[::-1], axis=0)[::-1]
    return out


def _both(s: Samples) -> tuple[Slope, Array]:
    """Slope from both sides, and how much of a kink the noise could hide."""
    h = s.h
    ratios = tuple((h / h[0]).tolist())
    valid = _valid(s.right + s.left)
    odd = np.where(valid, 0.5 * (s.right - s.left), 0.0)
    even = np.where(valid, 0.5 * (s.right + s.left) - s.start, 0.0)
    variance = 0.25 * (s.noise(s.right) ** 2 + s.noise(s.left) ** 2)
    k_ok, k_error = _kink_free(s, ratios, even, variance, valid)
    middle = np.median(np.where(valid, odd, np.nan)[valid.argmax(axis=0).max():]
                       / h[valid.argmax(axis=0).max():, None], axis=0)  # fmt: skip
    middle = np.where(np.isfinite(middle), middle, 0.0)
    family = stencil.odd(ratios)
    w = family.slope / h[0]
    moved = odd - middle * h[:, None]
    estimate = w @ moved + middle
    error = np.sqrt(w**2 @ variance) * _excess(family, moved, variance)
    slope = _select(h, estimate, error, valid & k_ok, shrink=2.0)
    gap = np.take_along_axis(k_error, slope.window[None], axis=0)[0]
    return slope, gap


def _kink_free(
    s: Samples, ratios: tuple[float, ...], even: Array, variance: Array, valid: Bools
) -> tuple[Bools, Array]:
    """Windows in which no kink is seen, and the standard error of its size there."""
    w = stencil.kink(ratios).slope / s.h[0]
    estimate = w[:, :, :-1] @ even
    error = np.sqrt(
        w[:, :, :-1] ** 2 @ variance + (w[:, :, -1:] * s.noise(s.start)) ** 2
    )
    seen = np.abs(estimate) > KINKED * error
    seen &= np.isfinite(error)
    seen = np.logical_or.accumulate(seen[::-1], axis=0)[::-1]
    usable = np.isfinite(error) & ~seen & valid[:, None, :]
    best = np.where(usable, error, np.inf).min(axis=1)
    free = usable.any(axis=1)
    # A window too small for the test inherits the answer of the smallest tested one.
    tested = np.isfinite(error).any(axis=1)
    free |= ~tested
    free = np.logical_and.accumulate(free[::-1], axis=0)[::-1]
    return free, np.where(np.isfinite(best), best, 0.0)


def _side(s: Samples, values: Array, t: Array) -> Slope:
    """Slope from one side and φ(0)."""
    ratios = tuple((s.h / s.h[0]).tolist())
    valid = _valid(values)
    family = stencil.side(ratios)
    w = family.slope / t[0]
    change = np.where(valid, values - s.start, 0.0)
    middle = np.median(np.where(valid, change / t[:, None], 0.0), axis=0)
    middle = np.where(np.isfinite(middle), middle, 0.0)
    moved = np.where(valid, change - middle * t[:, None], 0.0)
    estimate = w[:, :, :-1] @ moved + middle
    error = np.sqrt(
        w[:, :, :-1] ** 2 @ np.where(valid, s.noise(values), 0.0) ** 2
        + (w[:, :, -1:] * s.noise(s.start)) ** 2
    )
    data = np.concatenate([moved, np.zeros((1, moved.shape[1]))])
    noise = np.concatenate([s.noise(values), s.noise(s.start)[None]])
    error = error * _excess(family, data, noise**2)
    return _select(s.h, estimate, error, valid & np.isfinite(s.start), shrink=2.0)


def _excess(family: stencil.Family, data: Array, variance: Array) -> Array:
    """By how much residuals exceed the noise that was measured; ≥ 1, (k, p, m).

    The noise of a window is that of its noisiest value: the fits are not weighted.
    """
    rest = family.rest @ data
    most = np.maximum.accumulate(variance[::-1], axis=0)[::-1][: len(rest)]
    chi2 = (rest * rest).sum(axis=2) / np.maximum(most, TINY)[:, None]
    freedom = family.freedom[:, :, None]
    out: Array = np.sqrt(np.maximum(1.0, chi2 / np.maximum(freedom, 1.0)))
    return np.where(freedom >= 1, out * (1.0 + 4.0 / np.maximum(freedom, 1)), np.inf)


def _select(
    h: Array, estimate: Array, error: Array, allowed: Bools, shrink: float
) -> Slope:
    """The order and window of least standard error among those that agree."""
    n = len(h)
    usable = np.isfinite(error) & allowed[:, None, :] & np.isfinite(estimate)
    low = np.where(usable, estimate - KAPPA * error, -np.inf)
    high = np.where(usable, estimate + KAPPA * error, np.inf)
    low = np.maximum.accumulate(low[::-1], axis=0)[::-1]
    high = np.minimum.accumulate(high[::-1], axis=0)[::-1]
    agree = usable & (low <= high)
    smaller = np.array([np.argmax(h <= h[k] / shrink) or k for k in range(n)])
    last = np.where(usable, np.arange(n)[:, None, None], -1).max(axis=0)
    worth = np.where(agree, error, np.inf)
    first = worth.argmin(axis=0)
    chosen = smaller[first]
    exists = np.isfinite(worth.min(axis=0)) & (chosen <= last - 2)
    at = np.where(exists, chosen, 0)[None]
    e = np.where(exists, np.take_along_axis(error, at, axis=0)[0], np.inf)
    v = np.take_along_axis(estimate, at, axis=0)[0]
    v_first = np.take_along_axis(estimate, first[None], axis=0)[0]
    order = np.argmin(e, axis=0)
    pick = order[None]
    out_e = np.take_along_axis(e, pick, axis=0)[0]
    out_v = np.take_along_axis(v, pick, axis=0)[0]
    bias = np.abs(out_v - np.take_along_axis(v_first, pick, axis=0)[0])
    window = np.take_along_axis(at[0], pick, axis=0)[0]
    known = np.isfinite(out_e)
    return Slope(
        np.where(known, out_v, np.nan),
        out_e,
        np.where(known, bias, np.inf),
        window,
    )
