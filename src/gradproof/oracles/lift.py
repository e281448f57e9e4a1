"""Choosing what to difference: the native primal, or its evaluation in float64."""

from __future__ import annotations

import numpy as np

from gradproof.oracles.differences import Differences
from gradproof.rule import Primal
from gradproof.space import Vector

POINTS = 3  # displaced points at which a lift must agree as well


def best(primal: Primal, point: Vector | None = None) -> Differences:
    """Differences of the lifted primal where lifting is proven, of the native else."""
    native = Differences(primal, point)
    if all(leaf.precision == "float64" for leaf in (*primal.domain, *primal.codomain)):
        return native
    wide = primal.lifted()
    if wide is None or not _agrees(native, wide):
        return native
    out = Differences(wide, native.point)
    out.lifted = True
    out.unit = 2.0**-53
    out.method = "central difference, lifted to float64"
    out.evaluations += native.evaluations
    return out


def _agrees(native: Differences, wide: Primal) -> bool:
    """Whether values agree to what the native precision can explain."""
    domain = native.primal.domain
    rng = np.random.default_rng(7)
    scales = native.scales()
    for k in range(POINTS):
        x = native.point
        if k:
            step = scales * rng.choice([-0.5, 0.25, 0.5], domain.size)
            x = domain.snap(np.clip(x + step, domain.lows(), domain.highs()))
        a, b = native.ask(x), wide.value(x).value
        if b is None or len(a) != len(b):
            return False
        jitter = np.abs(_shaken(wide, x, domain.spacing(x), rng) - b)
        unit = np.maximum(native.primal.codomain.units(), domain.unit)
        typical = float(np.nan_to_num(np.abs(b)).max(initial=0.0))
        slack = 64 * (unit * np.maximum(np.abs(b), 1e-3 * typical) + jitter)
        with np.errstate(invalid="ignore"):
            near = (np.abs(a - b) <= slack) | (a == b) | (np.isnan(a) & np.isnan(b))
        if not near.all():
            return False
    return True


def _shaken(
    wide: Primal, x: Vector, spacing: Vector, rng: np.random.Generator
) -> Vector:
    moved = x + spacing * rng.choice([-0.5, 0.5], len(x))
    value = wide.value(moved).value
    return np.zeros(wide.codomain.size) if value is None else value
