"""A derivative from a whole ladder of steps, each output judged on its own.

For every window of steps and every order a least-squares fit gives a slope and its
standard error. Starting from the smallest steps, a window is trusted as long as its
slope agrees with all smaller ones (intersection of confidence intervals: Goldenshluger
and Nemirovski, Math. Methods Statist. 6 (1997); Lepski's principle); then half that
window is used, so that its truncation error lies well below the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gradproof.numdiff import fits, stencil
from gradproof.numdiff.quick import FIELDS, MACHINE, TINY, Answer
from gradproof.numdiff.sampling import Samples
from gradproof.numdiff.types import Array, Bools
from gradproof.verdict import Code

KINKED = 6.0  # a slope jump beyond this many standard errors closes a window
LONGEST = 1.25  # what a fit of many degrees of freedom is enlarged by at least
TEETH = 64.0  # from so many jumps within the reach on, steps are taken for noise
FINE = 2.0**20  # from so many on, the slope across them is the answer
COARSE = 2.0**9  # roundings that make a quantum
HALF, STAIR = 2.0**-13, 8.0  # a unit of half precision, roundings that make one there
LOUD = 64.0  # roundings of a value in half precision that are no rounding
CHUNK = 256  # outputs judged together

# How many standard errors, and how much of the change to the next larger window, go
# into bound and bar. Calibrated by benchmarks/honesty.py; of 200 000 pairs the worst
# reached 0.65 of its bound.
BOUND = (8.0, 3.0)
BAR = (2.5, 1.0)


@dataclass(frozen=True, eq=False)
class Judged:
    """An answer, and up to which step each output's was borne out (0: none)."""

    answer: Answer
    step: Array


def judge(s: Samples) -> Judged:
    """Value, bar, bound and code of every output."""
    moved = (s.right != s.start).any(axis=0) | (s.left != s.start).any(axis=0)
    which = np.flatnonzero(moved & np.isfinite(s.start))
    out = _constant(s)
    for i in range(0, len(which), CHUNK):
        some = which[i : i + CHUNK]
        part = _judge(_part(s, some))
        for name in FIELDS:
            getattr(out.answer, name)[some] = getattr(part.answer, name)
        out.step[some] = part.step
    return out


def _constant(s: Samples) -> Judged:
    """What holds of outputs that no step has moved."""
    known = np.isfinite(s.start)
    zero = np.where(known, 0.0, np.nan)
    room = np.where(known, 4.0 * s.unit * np.abs(s.start) / s.h[0] + TINY, np.inf)
    answer = Answer(
        value=zero, bar=room, bound=room.copy(), noise=s.sigma.copy(),
        code=np.where(known, Code.OK, Code.DOMAIN).astype(np.int8),
        left=zero.copy(), right=zero.copy(),
    )  # fmt: skip
    return Judged(answer, np.where(known, s.h[0], 0.0))


def _part(s: Samples, which: np.ndarray) -> Samples:
    return Samples(
        s.h, s.start[which], s.right[:, which], s.left[:, which], s.sigma[which], s.unit
    )


def _judge(s: Samples) -> Judged:
    with np.errstate(all="ignore"):
        s = _calmed(s)
        both, hidden, noise = _both(s)
        right = _side(s, s.right, s.h)
        left = _side(s, s.left, -s.h)
        found = _answer(s, both, hidden, right, left)
        return replace(found, answer=replace(found.answer, noise=noise))


def _calmed(s: Samples) -> Samples:
    """``s`` with less noise, where the table took for it what a pole or a jump did.

    Its nine neighbours may reach over one that the smaller steps do not. If on both sides
    some fit leaves residuals that noise as large would hardly ever leave (of three degrees
    of freedom a tenth, of many a quarter), they are what the noise is told from. On a stair there
    are none either, so every step of the fit must move the value.
    """
    floor = 0.6 * s.unit * np.abs(s.start)
    family = stencil.side(tuple((s.h / s.h[0]).tolist()))
    freedom = family.freedom[:, :, None]
    factor = np.zeros(len(s.start))
    for values in (s.right, s.left):
        valid = _valid(values) & _valid(np.where(values == s.start, np.nan, values))
        change = np.where(valid, values - s.start, 0.0)
        data = np.concatenate([change, np.zeros((1, change.shape[1]))])
        variance = np.concatenate([s.noise(values), s.noise(s.start)[None]]) ** 2
        ratio = np.sqrt(fits.chi2(family, data, variance))
        told = np.where(
            (freedom >= fits.LEAST) & valid[:, None, :],
            ratio * (4.0 + 16.0 / freedom),
            1.0,
        )
        factor = np.fmax(factor, told.min(axis=(0, 1), initial=1.0))
    sigma = np.fmin(s.sigma, np.fmax(factor * s.sigma, floor))
    return replace(s, sigma=sigma)


def _answer(
    s: Samples, both: fits.Slope, hidden: Array, right: fits.Slope, left: fits.Slope
) -> Judged:
    value, window = both.value, both.agreed
    bound = BOUND[0] * both.error + BOUND[1] * both.bias + hidden
    bar = BAR[0] * both.error + BAR[1] * both.bias
    for one, other, t in ((right, s.left, -s.h), (left, s.right, s.h)):
        alone = (
            np.isfinite(one.error) & ~np.isfinite(bound) & ~_denies(s, other, t, one)
        )
        value = np.where(alone, one.value, value)
        bound = np.where(alone, BOUND[0] * one.error + BOUND[1] * one.bias, bound)
        bar = np.where(alone, BAR[0] * one.error + BAR[1] * one.bias, bar)
        window = np.where(alone, one.agreed, window)
    last, room = _limit(s)
    slow = ~np.isfinite(bound) & np.isfinite(room)
    value, bar = np.where(slow, last, value), np.where(slow, 0.5 * room, bar)
    bound = np.where(slow, room, bound)
    window = np.where(slow, len(s.h) - 1, window)
    code = np.full(len(value), Code.OK, dtype=np.int8)
    apart = np.abs(right.value - left.value)
    sides = BOUND[0] * (right.error + left.error) + BOUND[1] * (right.bias + left.bias)
    size = np.abs(value)
    changes, n = np.abs(np.concatenate([s.right, s.left]) - s.start), len(s.h)
    seen = np.where(np.isfinite(changes), changes, 0.0).max(axis=0, initial=0.0)
    # A tail of 0 may be what rounding has left of it, as of 1 + erf.
    tail = (s.start == 0) & (value == 0) & (changes[[n - 1, -1]] == 0).all(axis=0)
    near = np.where(changes[:n] + changes[n:] > 0, s.h[:, None], s.h[0]).min(axis=0)
    bound = bound + np.where(tail, 4.0 * s.unit * seen / near, 0.0)
    lost = bound * s.h[0] > np.maximum(np.abs(s.start), seen)
    code[lost & ~(bound <= 0.5 * size)] = Code.NOISE
    code[_gridded(s, changes, size) & (code == Code.OK)] = Code.NOISE
    if s.unit > HALF:  # few steps are below a jump, which the table then calls noise
        loud = s.sigma > LOUD * s.unit * np.abs(s.start)
        code[loud & (s.start != 0) & (code == Code.OK)] = Code.NOISE
    # A kink some way off is outside the window; the slope is that of one side then.
    away = (bound <= 0.125 * apart) & (
        np.fmin(np.abs(value - right.value), np.abs(value - left.value))
        <= bound + sides
    )
    code[(apart > sides) & ~away] = Code.KINK
    code[_torn(s)] = Code.JUMP
    somewhere = np.isfinite(s.right[-1]) | np.isfinite(s.left[-1])
    code[~somewhere | ~np.isfinite(s.start)] = Code.DOMAIN
    known = np.isfinite(bound) & ((code == Code.OK) | (code == Code.NOISE))
    rounding = 4.0 * MACHINE * size + TINY
    answer = Answer(
        value=np.where(code == Code.DOMAIN, np.nan, value),
        bar=np.where(known, bar + rounding, np.inf),
        bound=np.where(known, bound + rounding, np.inf),
        noise=s.sigma,
        code=code,
        left=left.value,
        right=right.value,
    )
    return Judged(answer, np.where(window >= 0, s.h[window], 0.0))


def _gridded(s: Samples, changes: Array, slope: Array) -> Bools:
    """Outputs that stand still next to 0 and then move by quanta far above rounding.

    Their derivative is 0 between the quanta and ``slope`` across them. Few quanta within
    the reach are steps of the function's own, very many are its precision; so are those
    that cancellation leaves, which are hardly 500 times the rounding. In half
    precision nobody can tell, for hardly more is left of any value.
    """
    n = len(s.h)
    still = (changes[n - 2 : n] == 0).all(axis=0) | (changes[-2:] == 0).all(axis=0)
    quantum = np.where(changes > 0, changes, np.inf).min(axis=0)
    largest = np.abs(s.start) + np.where(np.isfinite(changes), changes, 0).max(axis=0)
    quanta = 2.0 * s.h[0] * slope / quantum
    coarse = (quanta >= TEETH) & (quanta < FINE) & (quantum > COARSE * s.unit * largest)
    if s.unit > HALF:  # by the values next to 0, for far off there may be a pole
        coarse |= quantum > STAIR * s.unit * (np.abs(s.start) + quantum)
    return np.asarray(still & coarse)


def _limit(s: Samples) -> tuple[Array, Array]:
    """The slope at the smallest step and its error, where slopes converge slowly.

    Without noise a function such as x|x| or x^1.5 at 0 fits no polynomial at any step;
    the change of the slope over the last steps, if it shrinks, then bounds the rest.
    """
    h = s.h[-4:, None]
    right, left = (s.right[-4:] - s.start) / h, (s.start - s.left[-4:]) / h
    slopes = np.where(
        np.isfinite(right[-1]) & np.isfinite(left[-1]),
        0.5 * (right + left),
        np.where(np.isfinite(right[-1]), right, left),
    )
    first, second, third = np.abs(np.diff(slopes, axis=0))
    converging = (third > 0) & (third <= 0.7 * second) & (second <= 0.7 * first)
    gap: Array = np.abs(right[-1] - left[-1])
    kink = np.where(np.isfinite(gap), gap, 0.0)
    noise = s.noise(slopes * h + s.start)[-1] / s.h[-1]
    room = 8.0 * (third + noise) + 2.0 * kink
    return slopes[-1], np.where(converging, room, np.inf)


def _denies(s: Samples, values: Array, t: Array, slope: fits.Slope) -> Bools:
    """Where the other side, of which nothing fits, has another slope at its last steps."""
    near = (values[-3:] - s.start) / t[-3:, None]
    room = BOUND[0] * (slope.error + s.noise(values)[-3:] / s.h[-3:, None])
    room = (
        room + BOUND[1] * slope.bias + 2.0 * np.abs(np.diff(near, axis=0)).max(axis=0)
    )
    return np.asarray((np.abs(near - slope.value) > room).any(axis=0))


def _torn(s: Samples) -> Bools:
    """Outputs that have limits on both sides which differ from each other or φ(0)."""
    low = np.stack([s.right[-4:].min(axis=0), s.left[-4:].min(axis=0)])
    high = np.stack([s.right[-4:].max(axis=0), s.left[-4:].max(axis=0)])
    spread = (high - low).max(axis=0)
    jump = np.abs(np.stack([low - s.start, high - s.start])).min(axis=0).max(axis=0)
    out: Bools = (jump > 20.0 * spread) & (jump > 100.0 * s.unit * np.abs(s.start))
    return out


def _valid(values: Array) -> Bools:
    """Windows (by their largest step) in which all values are finite."""
    finite = np.isfinite(values)
    out: Bools = np.logical_and.accumulate(finite[::-1], axis=0)[::-1]
    return out


def _both(s: Samples) -> tuple[fits.Slope, Array, Array]:
    """fits.Slope from both sides, how much of a kink the noise could hide, and the noise."""
    h = s.h
    ratios = tuple((h / h[0]).tolist())
    valid = _valid(s.right + s.left)
    odd = np.where(valid, 0.5 * (s.right - s.left), 0.0)
    even = np.where(valid, 0.5 * (s.right + s.left) - s.start, 0.0)
    variance = 0.25 * (s.noise(s.right) ** 2 + s.noise(s.left) ** 2)
    middle = fits.typical(odd / h[:, None], valid)
    moved = np.where(valid, odd - middle * h[:, None], 0.0)
    family = stencil.odd(ratios)
    underrated = fits.underrated(family, moved, variance, valid)
    factor = underrated**2
    variance = variance * factor
    estimate, error = fits.fits(family, h[0], moved, variance)
    free, hidden = _kink_free(s, ratios, even, variance, factor, valid)
    slope = fits.select(h, estimate + middle, error, family.freedom, valid & free)
    hidden = np.take_along_axis(hidden, np.maximum(slope.window, 0)[None], 0)[0]
    return slope, hidden, s.sigma * np.maximum(1.0, underrated / LONGEST)


def _kink_free(
    s: Samples,
    ratios: tuple[float, ...],
    even: Array,
    variance: Array,
    factor: Array,
    valid: Bools,
) -> tuple[Bools, Array]:
    """Windows in which no kink is seen, and the standard error of its size there."""
    family = stencil.kink(ratios)
    data = np.concatenate([even, np.zeros((1, even.shape[1]))])
    start = s.noise(s.start)[None] ** 2 * factor
    estimate, error = fits.fits(family, s.h[0], data, np.concatenate([variance, start]))
    clear: Bools = ~np.asarray(np.abs(estimate) > KINKED * error)
    clear = np.logical_and.accumulate(clear[::-1], axis=0)[::-1]
    usable = np.isfinite(error) & clear & valid[:, None, :]
    hidden = np.where(usable, error, np.inf).min(axis=1)
    # A window too small for the test is taken as free, if all larger ones up to the
    # smallest tested one are.
    untested = ~np.isfinite(error).any(axis=1)
    open_: Bools = np.asarray(usable.any(axis=1) | untested)
    free: Bools = np.logical_and.accumulate(open_[::-1], axis=0)[::-1]
    return free, np.where(np.isfinite(hidden), hidden, 0.0)


def _side(s: Samples, values: Array, t: Array) -> fits.Slope:
    """fits.Slope from one side and φ(0)."""
    family = stencil.side(tuple((s.h / s.h[0]).tolist()))
    valid = _valid(values) & np.isfinite(s.start)
    change = np.where(valid, values - s.start, 0.0)
    middle = fits.typical(change / t[:, None], valid)
    moved = np.where(valid, change - middle * t[:, None], 0.0)
    data = np.concatenate([moved, np.zeros((1, moved.shape[1]))])
    variance = np.concatenate([s.noise(values), s.noise(s.start)[None]]) ** 2
    variance = variance * fits.underrated(family, data, variance, valid) ** 2
    estimate, error = fits.fits(family, t[0], data, variance)
    return fits.select(s.h, estimate + middle, error, family.freedom, valid)
