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
ROUNDED = 6  # evaluations that are rounded at random
MANY = 16.0  # roundings of a value by which it moves then, if it is what cancels
MACHINE = 2.0**-53
METHOD = "central difference, lifted to float64"


def best(primal: Primal, point: Vector | None = None) -> Differences:
    """Differences of the lifted primal where lifting is proven, of the native else.

    Proven: at the point and at others up to half a coordinate's size away, every value
    is that of the native primal within the rounding of the native precision (of the
    inputs too: how much half a unit in the last place of x moves the value), typically
    within a few roundings; and the native derivative along one direction agrees within
    its bound. A primal that is in float64 already has a lift only if it computes in
    less inside; its rounding is then measured. Values of which cancellation leaves few
    digits are held against what rounding at random makes of them; and where nothing can
    be lifted, the native ones are rounded so.
    """
    native = Differences(primal, point)
    wide = primal.lifted()
    out = None if wide is None else Differences(wide, native.point)
    chosen = out if out is not None and _same(native, out) else native
    moved = cancelling(native) if chosen is native else None
    if moved is not None:
        native.dither(moved)
        chosen = out if out is not None and _same(native, out) else native
    if out is None:
        return native
    if chosen is out:
        out.lifted = True
        out.method = METHOD
    chosen.evaluations = native.evaluations + out.evaluations
    return chosen


def cancelling(native: Differences) -> Vector | None:
    """How far rounding at random moves each value of a narrow primal.

    None where that is not far more than the rounding of the values themselves.
    """
    if native.unit <= MACHINE:
        return None
    moved = _moved(native, native.point, native.value)
    if moved is None:
        return None
    unit, size = native.primal.codomain.units(), np.abs(np.nan_to_num(native.value))
    floor = 0.1 * np.sqrt(np.mean(size**2)) if size.size else 0.0
    far = moved > MANY * unit * np.maximum(size, floor)
    return moved if far.any() else None


def cancels(primal: Primal, point: Vector) -> bool:
    """Whether cancellation leaves the values of a narrow primal few of their digits."""
    return cancelling(Differences(primal, point)) is not None


def explained(primal: Primal, wide: Primal, point: Vector) -> bool:
    """Whether rounding, cancellation included, explains how the values differ."""
    native = Differences(primal, point)
    moved = cancelling(native)
    if moved is None:
        return False
    native.dither(moved)
    rng = np.random.default_rng(0x51F7)
    return _values_agree(native, Differences(wide, point), rng)


def _same(native: Differences, wide: Differences) -> bool:
    rng = np.random.default_rng(0x51F7)
    return _values_agree(native, wide, rng) and _slopes_agree(native, wide, rng)


def _moved(native: Differences, x: Vector, value: Vector) -> Vector | None:
    """How far rounding at random moves each value at ``x``; None where it cannot be."""
    out = np.zeros(len(value))
    for seed in range(ROUNDED):
        reply = native.primal.rounded(x, seed)
        if reply is None:
            return None
        native.evaluations += 1
        if reply.value is not None:
            with np.errstate(invalid="ignore"):
                out = np.fmax(out, np.abs(reply.value - value))
            out[np.isnan(reply.value) != np.isnan(value)] = np.inf
    return out


def _values_agree(
    native: Differences, wide: Differences, rng: np.random.Generator
) -> bool:
    domain, codomain = native.primal.domain, native.primal.codomain
    if len(wide.value) != codomain.size:
        return False
    unit = np.maximum(codomain.units(), domain.unit)
    inside = _noise_inside(native, rng) if native.unit <= MACHINE else 0.0
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
        moved = _moved(native, x, a) if native.dithered else None
        with np.errstate(invalid="ignore", divide="ignore"):
            rounding = unit * np.abs(b) + np.where(np.isfinite(shaken), shaken, 0.0)
            rounding = np.where(np.isfinite(rounding), rounding + inside, 0.0)
            if moved is not None:
                rounding = rounding + np.where(np.isfinite(moved), 0.5 * moved, 0.0)
            typical = np.sqrt((rounding**2).sum() / max(1, np.count_nonzero(rounding)))
            off = np.abs(a - b) / np.maximum(rounding, 0.1 * typical)
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, off)
        if moved is not None:  # an overflow that rounding at random avoids
            off = np.where(np.isinf(moved), 0.0, off)
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
