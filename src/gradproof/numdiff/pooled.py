"""A derivative from sums of values at ±h and ±2h: projections of very many outputs.

The formula and the calibration are those of ``quick``. It is linear in the values but
for the noise, so that sums over outputs can be differenced as one number is. Arrays may
be those of any framework; ``xp`` has its functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradproof.numdiff.quick import BOUND, TINY, step_ratio

RELATIVE = 2.0**-30  # the derivative of a program and of what it stands for differ so
SHARED = 2.0**-4  # of the rounding of the largest output, the least noise of every one
DEVIATION = 70.0**0.5  # of ``bend``, in units of that of one value
REACH = 4.0  # the largest sensible step, in units of the tangent


@dataclass(frozen=True, eq=False)
class Values:
    """What four values of one output say, or weighted sums of them.

    ``first`` = f(h) − f(−h), ``second`` = f(2h) − f(−2h),
    ``bend`` = 4 (f(h) + f(−h)) − f(2h) − f(−2h) − 6 f(0), the fourth difference.
    """

    first: Any
    second: Any
    bend: Any


@dataclass(frozen=True)
class Step:
    """The step h, in units of the tangent, for values of this roundoff."""

    unit: float

    @property
    def h(self) -> float:
        """A power of two."""
        return REACH * step_ratio(self.unit)

    def values(self, f1: Any, g1: Any, f2: Any, g2: Any, start: Any) -> Values:
        """From f at h, −h, 2h, −2h and 0, in float64."""
        bend = 4.0 * (f1 + g1) - (f2 + g2) - 6.0 * start
        return Values(f1 - g1, f2 - g2, bend)

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
        drift = near - v.second * (0.25 / self.h)
        bound = (
            abs(drift) * BOUND[0]
            + abs(v.bend) * (0.5 * BOUND[1] / self.h)
            + noise * (BOUND[2] / self.h)
            + abs(near) * RELATIVE
        )
        return near + drift * (1.0 / 3.0), bound


def excess(bend: Any, floor: Any, xp: Any) -> float:
    """Noise over its floor, by the median of the fourth differences that are not 0."""
    moved = bend != 0
    if not bool(moved.any()):
        return 1.0
    ratio = abs(bend[moved]) / floor[moved]
    return 1.0 + float(xp.median(ratio)) / (0.67 * DEVIATION)
