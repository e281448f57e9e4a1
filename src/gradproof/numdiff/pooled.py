"""A derivative from sums of values at ±h and ±2h: projections of very many outputs.

The formula and the calibration are those of ``quick``. It is linear in the values but
for the noise, so that sums over outputs can be differenced as one number is. Arrays may
be those of any framework; ``xp`` has its functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gradproof.numdiff.quick import BOUND, TINY, step_ratio

RELATIVE = 2.0**-30  # the derivative of a program and of what it stands for differ so
SHARED = 2.0**-4  # of the rounding of the largest output, the least noise of every one
REACH = 4.0  # the largest sensible step, in units of the tangent
NEAR = 2.0**-18  # the step where roundings of float64 are far below what is asked for


@dataclass(frozen=True, eq=False)
class Values:
    """What the values of one output at the steps say, or weighted sums of them.

    ``first`` = f(h) − f(−h). With four steps ``second`` = f(2h) − f(−2h), and ``bend``
    is the fourth difference 4 (f(h) + f(−h)) − f(2h) − f(−2h) − 6 f(0); with two it is
    the second difference f(h) + f(−h) − 2 f(0), and ``second`` is ``first``.
    """

    first: Any
    second: Any
    bend: Any


@dataclass(frozen=True)
class Step:
    """Steps in units of the tangent, for values of this roundoff.

    Four of them (±h, ±2h) resolve a derivative as far as its values allow. Two very
    small ones do where the values are far more exact than what is held against them:
    their bound is the change of the slope from −h to h, which a kink is part of.
    """

    unit: float
    near: bool = False
    times: float = 1.0  # the usual step

    @property
    def h(self) -> float:
        """A power of two."""
        return self.times * (NEAR if self.near else REACH * step_ratio(self.unit))

    @property
    def steps(self) -> tuple[float, ...]:
        """Where the function is asked, beside 0."""
        h = self.h
        return (h, -h) if self.near else (h, -h, 2.0 * h, -2.0 * h)

    @property
    def deviation(self) -> float:
        """Of ``bend``, in units of that of one value."""
        return math.sqrt(6.0 if self.near else 70.0)

    def values(self, start: Any, f: Any, g: Any, *far: Any) -> Values:
        """From f at 0 and at ``steps``, in float64."""
        first, both = f - g, f + g
        if not far:
            return Values(first, first, both - 2.0 * start)
        over, under = far
        return Values(first, over - under, 4.0 * both - (over + under) - 6.0 * start)

    def floor(self, first: Any, start: Any, largest: float, times: float = 1.0) -> Any:
        """The least r.m.s. noise of a value, the rounding of x ± h being part of it."""
        unit = times * self.unit
        return (
            abs(start) * unit
            + abs(first) * (unit / self.h)
            + (unit * SHARED * largest + TINY)
        )

    def slope(self, v: Values, noise: Any) -> tuple[Any, Any]:
        """The derivative and its bound, from values whose r.m.s. noise is ``noise``."""
        near = v.first * (0.5 / self.h)
        noisy = noise * (BOUND[2] / self.h) + abs(near) * RELATIVE
        if self.near:
            return near, abs(v.bend) * (BOUND[1] / self.h) + noisy
        drift = near - v.second * (0.25 / self.h)
        gap = abs(v.bend) * (0.5 * BOUND[1] / self.h)
        return near + drift * (1.0 / 3.0), abs(drift) * BOUND[0] + gap + noisy

    def excess(self, v: Values, floor: Any, xp: Any) -> float:
        """Noise over its floor, by the median of fourth differences where f moves.

        Those of exactly 0 count too: where most are (a ReLU off its kinks), the few that
        are not say nothing of the others. A second difference is curvature rather than noise: it is in every bound.
        """
        moved = v.first != 0
        if self.near or not bool(moved.any()):
            return 1.0
        ratio = abs(v.bend[moved]) / floor[moved]
        return 1.0 + float(xp.median(ratio)) / (0.67 * self.deviation)
