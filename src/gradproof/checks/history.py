"""Is the forward a function at all, or does it remember what was called before?"""

from __future__ import annotations

import numpy as np

from gradproof.rule import Primal
from gradproof.space import Vector

# Values that wander by less than this many ulps are rounding in another order.
WANDER = 64.0


def history(primal: Primal, first: Vector, elsewhere: Vector) -> tuple[float, int]:
    """f(x), f(x'), f(x) again: the largest change relative to the value, and how many.

    Args:
        primal: the function; asked twice more at its point, once at ``elsewhere``.
        first: f(x) as it was at the first call.
        elsewhere: another point of the domain.

    Returns:
        (largest |change| / largest |f|, number of outputs that changed), (0.0, 0) when
        the forward is a function to within rounding.
    """
    primal.value(elsewhere)
    again = primal.value(primal.point).value
    if again is None:
        return float("inf"), first.size
    with np.errstate(invalid="ignore"):
        gap = np.abs(again - first)
    size = float(np.max(np.abs(first), initial=0.0, where=np.isfinite(first)))
    room = WANDER * primal.codomain.units() * np.maximum(np.abs(first), 1e-3 * size)
    same = (again == first) | (np.isnan(again) & np.isnan(first))
    moved = ~(gap <= room) & ~same
    if not moved.any():
        return 0.0, 0
    worst = float(np.max(gap[moved], where=np.isfinite(gap[moved]), initial=0.0))
    return worst / size if size > 0 else float("inf"), int(moved.sum())
