"""Which steps are taken, and the values that came of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from gradproof.numdiff import noise
from gradproof.numdiff.types import Array
from gradproof.space import Vector

Phi: TypeAlias = Callable[[float], Vector]

# Irregular, so that rounding errors form no pattern; neighbours of 0 in grains.
WIDE = np.array([-331.0, -230, -141, -59, 0, 83, 167, 262, 347])
NARROW = np.array([-17.0, -12, -7, -3, 0, 4, 9, 13, 18])
CLOSE = np.arange(-4.0, 5.0)
TIED = 0.5  # share of equal neighbours from which a table says nothing
COARSE = 128.0  # roundings of a value from which on a grid of values is called coarse
FEW = 18  # octaves of steps that are all taken
HIDDEN = 4096.0  # times the values (or 1): the largest number cancelled on the way


class Counted:
    """φ within a range; its calls counted, its values remembered by t."""

    def __init__(
        self,
        phi: Phi,
        start: Vector | None,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> None:
        """Take φ, φ(0) where known, and the range that t may not leave."""
        self._phi, self.low, self.high = phi, low, high
        self._known: dict[float, Array] = {}
        self.evaluations = 0
        if start is not None:
            self._known[0.0] = np.asarray(start, dtype=np.float64)

    def __call__(self, t: float) -> Array:
        """φ(t), asked once; NaN outside the range."""
        if t not in self._known:
            if not self.low <= t <= self.high:
                return np.full_like(self._known[0.0], np.nan)
            self.evaluations += 1
            self._known[t] = np.asarray(self._phi(t), dtype=np.float64)
        return self._known[t]


@dataclass(frozen=True, eq=False)
class Samples:
    """Values at steps h, largest first; rows are steps, columns outputs.

    ``right`` and ``left`` hold NaN rows where t may not go. ``sigma`` is the r.m.s.
    noise of each output near 0, ``floor`` what its rounding alone must be.
    """

    h: Array
    start: Array
    right: Array
    left: Array
    sigma: Array
    unit: float

    def noise(self, values: Array) -> Array:
        """Noise of each value: near 0, and the rounding of its own size."""
        rounding = 0.6 * self.unit * np.abs(np.where(np.isfinite(values), values, 0))
        return np.asarray(np.hypot(self.sigma, rounding))


def ladder(top: float, grain: float) -> Array:
    """Steps from ``top`` downwards, dense where most functions are decided.

    Ratios to ``top`` have one-bit mantissas, so that every step is exact in any dtype
    in which ``top`` is a power of two and not below ``grain``.
    """
    # The quotient itself may be beyond every float.
    octaves = max(0, math.floor(math.log2(top) - math.log2(grain))) if grain > 0 else 50
    if octaves <= FEW:
        return every_octave(top, grain)
    dense = [1.0, 0.75, 0.5, 0.375, 0.25, 0.1875, 0.125]
    gap, last = (2, octaves - 2) if octaves <= 26 else (3, octaves - 4)
    exponents = [4, 5, 6, 7] if octaves <= 26 else [5, 7, 9]
    k = exponents[-1] + gap
    while k <= last:
        exponents.append(k)
        k += gap
    return top * np.array(dense + [2.0**-k for k in exponents])


def every_octave(top: float, grain: float) -> Array:
    """All octaves of steps, for what the ladder passes over between its last steps."""
    octaves = max(0, math.floor(math.log2(top) - math.log2(grain))) if grain > 0 else 50
    powers = [2.0**-k for k in range(octaves + 1)]
    between = [0.75 * r for r in powers[: max(0, min(FEW, octaves - 1))]]
    return top * np.sort([*powers, *between])[::-1]


def power_of_two(x: float) -> float:
    """The largest power of two that is not above ``x``."""
    return float(2.0 ** math.floor(math.log2(x)))


def take(phi: Counted, h: Array, start: Array, unit: float, grain: float) -> Samples:
    """Evaluate the ladder and the noise table."""
    right = np.array([phi(t) for t in h.tolist()])
    left = np.array([phi(-t) for t in h.tolist()])
    sigma = _sigma(phi, h, start, unit, grain)
    out = Samples(h, start, right, left, sigma, unit)
    return replace(out, sigma=_coarse(phi, out, grain))


def _neighbours(h: Array, grain: float) -> Array:
    """Nine irregular multiples of ``grain`` around 0, within a small part of the reach."""
    room = float(h[0]) / (128.0 * grain)
    if room >= 2.0 * WIDE[-1]:
        return grain * WIDE
    return grain * (NARROW if room >= 2.0 else CLOSE)


def _coarse(phi: Counted, s: Samples, grain: float) -> Array:
    """Noise of outputs whose values lie on a grid coarser than their own rounding.

    So do differences of numbers much larger than themselves, as 1 − cos x. Neighbours of
    0 closer than that grid are mostly equal, and say nothing (Moré and Wild's exit "h too
    small"). The smallest changes on either side show the grid. One as wide as that of
    ``floor`` is not rounding: its steps are jumps.
    """
    near = np.array([phi(t) for t in _neighbours(s.h, grain).tolist()])
    with np.errstate(all="ignore"):
        tied = (near[1:] == near[:-1]).mean(axis=0) >= TIED
    some = np.flatnonzero(tied & np.isfinite(s.start) & (s.start != 0))
    sigma = s.sigma.copy()
    if not len(some):
        return sigma
    start = s.start[some]
    moved = np.abs(np.stack([s.right[:, some], s.left[:, some]]) - start)
    moved = np.where(np.isfinite(moved) & (moved > 0), moved, np.inf)
    least = moved.min(axis=1).max(axis=0)  # the smallest change, on the worse side
    every = np.concatenate([s.right[:, some], s.left[:, some], start[None]])
    large = np.where(np.isfinite(every), np.abs(every), 0.0).max(axis=0)
    coarse = least >= COARSE * s.unit * np.abs(start)
    coarse &= least <= HIDDEN * s.unit * np.maximum(large, 1.0)
    sigma[some] = np.where(coarse, np.fmax(sigma[some], least), sigma[some])
    return sigma


def _sigma(phi: Counted, h: Array, start: Array, unit: float, grain: float) -> Array:
    """Noise near 0; from one side where the other is not finite."""
    t = _neighbours(h, grain)
    sigma = np.full(len(start), np.nan)
    for side in (t, t - t[0], t - t[-1]):
        if not np.isfinite(start[~np.isfinite(sigma)]).any():
            break
        with np.errstate(all="ignore"):
            values = np.array([phi(s) for s in side.tolist()])
            found = noise.scatter(side, values)
        sigma = np.where(np.isfinite(sigma), sigma, found)
    floor = 0.6 * unit * np.abs(start)
    out: Array = np.fmax(np.where(np.isfinite(sigma), sigma, 0.0), floor)
    return out
