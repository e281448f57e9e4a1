"""Choosing what to difference: the native primal, or its evaluation in float64."""

from __future__ import annotations

import numpy as np

from gradproof.oracles.differences import Differences
from gradproof.rule import Primal
from gradproof.space import Vector
from gradproof.verdict import Code

DISPLACED = 3  # points, beside the point itself, at which a lift must agree
LARGE = 1 << 16  # outputs from which one such point has as much to say
SINGLE = 48.0  # roundings by which one output may differ
TYPICAL = 6.0  # roundings by which the outputs may differ in the root mean square
METHOD = "central difference, lifted to float64"


def best(primal: Primal, point: Vector | None = None) -> Differences:
    """Differences of the lifted primal where lifting is proven, of the native else.

    Proven: at the point and at others up to half a coordinate's size away, every value
    is that of the native primal within the rounding of the native precision (of the
    inputs too: how much half a unit in the last place of x moves the value), typically
    within a few roundings; and the native derivative along one direction agrees within
    its bound. A primal that is in float64 already has a lift only if it computes in
    less inside; its rounding is then measured.
    """
    native = Differences(primal, point)
    wide = primal.lifted()
    if wide is None:
        return native
    rng = np.random.default_rng(0x51F7)
    out = Differences(wide, native.point)
    agrees = _values_agree(native, out, rng) and _slopes_agree(native, out, rng)
    out.lifted = True
    out.method = METHOD
    chosen = out if agrees else native
    chosen.evaluations = native.evaluations + out.evaluations
    return chosen


def _values_agree(
    native: Differences, wide: Differences, rng: np.random.Generator
) -> bool:
    domain, codomain = native.primal.domain, native.primal.codomain
    if len(wide.value) != codomain.size:
        return False
    unit = np.maximum(codomain.units(), domain.unit)
    inside = _noise_inside(native, rng) if native.unit <= 2.0**-53 else 0.0
    worst = []
    for k in range((1 if codomain.size >= LARGE else DISPLACED) + 1):
        x = native.point
        if k:
            step = native.scales() * rng.choice(
                [-2.0, -1.0, 0.5, 1.0, 2.0], domain.size
            )
            x = domain.snap(np.clip(x + step, domain.lows(), domain.highs()))
        a, b = native.ask(x), wide.ask(x)
        # The inputs are the same, but intermediate results are rounded: the effect of
        # rounding x stands for theirs.
        half = 0.5 * domain.spacing(x) * rng.choice([-1.0, 1.0], domain.size)
        shaken = np.abs(wide.ask(x + half) - b)
        with np.errstate(invalid="ignore", divide="ignore"):
            rounding = unit * np.abs(b) + np.where(np.isfinite(shaken), shaken, 0.0)
            rounding = np.where(np.isfinite(rounding), rounding + inside, 0.0)
            typical = np.sqrt((rounding**2).sum() / max(1, np.count_nonzero(rounding)))
            off = np.abs(a - b) / np.maximum(rounding, 0.1 * typical)
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, off)
        if not np.isfinite(off).all():
            return False
        worst.append(off)
    off = np.concatenate(worst)
    return bool(off.max(initial=0.0) <= SINGLE and np.sqrt(np.mean(off**2)) <= TYPICAL)


def _noise_inside(native: Differences, rng: np.random.Generator) -> Vector:
    """Noise of the values of a float64 primal: what it computes in less shows in it."""
    u = native.scales() * rng.choice([-1.0, 0.75, 1.0], native.primal.domain.size)
    return np.nan_to_num(native.direction(u, "thorough").noise)


def _slopes_agree(
    native: Differences, wide: Differences, rng: np.random.Generator
) -> bool:
    """Whether no output's derivatives along one direction exclude each other."""
    u = native.scales() * rng.choice([-1.0, 0.5, 1.0], native.primal.domain.size)
    for plan in ("quick", "thorough"):
        a, b = native.direction(u, plan), wide.direction(u, plan)
        known = (a.code == Code.OK) & (b.code == Code.OK)
        with np.errstate(invalid="ignore"):
            apart = np.abs(a.value - b.value) > a.bound + b.bound
        if not (apart & known).any():
            return True
    return False
