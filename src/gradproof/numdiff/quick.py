"""A derivative from four or five values: ±h, ±2h and the value at 0.

The value is the five-point formula; its error is bounded by quantities that the same
values give: the change of the central difference from 2h to h, the disagreement of the
one-sided slopes of second order, and the noise. A single kink or jump anywhere between
−2h and 2h, other than at 0 itself, stays inside the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradproof.numdiff.types import Array, Bools, Codes
from gradproof.verdict import Code

TINY = 2.0**-1022
MACHINE = 2.0**-53

# How much of the drift from 2h to h, of the gap between the one-sided slopes, and of
# noise / h goes into bound and bar. A kink at any distance within 2h needs at least 1
# and 1/2 of the first two; the rest was calibrated by benchmarks/honesty.py.
BOUND = (1.25, 0.75, 8.0)
BAR = (0.6, 0.5, 2.5)
COARSEST = 0.25  # no step is larger than this part of the reach
SIDED = (2.0, 30.0)  # the same for three values on one side: curvature, noise / h
SIDED_BAR = (0.5, 8.0)
SINGULAR = 0.05  # a one-sided slope that changes by this part from 2h to h is none
NOISY = 64.0  # excess of noise from which a larger step is tried as well
MANY = 8  # entries whose noise is pooled with confidence
CHUNK = 1 << 14  # entries that are worked on at a time, so that they stay in the cache
POOLED = 1 << 15  # entries of which a median is taken, at most


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
    excess: float = 1.0  # of the noise over the rounding of the values, typically


FIELDS = ("value", "bar", "bound", "noise", "code", "left", "right")


def step_ratio(unit: float) -> float:
    """The step over the reach that balances truncation and rounding, a power of two."""
    ratio = 2.0 ** np.round(np.log2(4.0 * unit ** (1.0 / 3.0)))
    return float(min(ratio, COARSEST))


def central(
    steps: tuple[Array, Array, Array, Array],
    values: tuple[Array, Array, Array, Array],
    start: Array,
    unit: float,
    grain: float | Array,
    noise: Array | None = None,
) -> Answer:
    """Derivatives at 0 from values at the displacements ``steps`` = (h, −h, 2h, −2h).

    The displacements are those that were really made, shape (…, 1) or (…, m); values
    have shape (…, m), ``start`` and ``noise`` (r.m.s., where measured) shape (m,).
    ``grain`` is the spacing of the argument: what is computed from it is rounded too,
    and by the slope of the function that reaches its values. Entries whose values are
    not finite on one side are answered from the other.
    """
    with np.errstate(all="ignore"):
        if values[0].ndim == 1 and values[0].size >= 2 * CHUNK:
            return _in_chunks(steps, values, start, unit, float(np.max(grain)), noise)
        return _central(steps, values, start, unit, grain, noise)


def _in_chunks(
    steps: tuple[Array, Array, Array, Array],
    values: tuple[Array, Array, Array, Array],
    start: Array,
    unit: float,
    grain: float,
    noise: Array | None,
) -> Answer:
    """The same for many entries, with the noise of a sample of them."""
    every = slice(None, None, max(1, len(start) // POOLED))

    def part(where: slice, excess: float | None) -> Answer:
        some = tuple(v[where] for v in values)
        sigma = None if noise is None else noise[where]
        return _central(steps, some, start[where], unit, grain, sigma, excess)  # type: ignore[arg-type]

    excess = part(every, None).excess
    out = {n: np.empty(len(start)) for n in FIELDS if n != "code"}
    code = np.empty(len(start), dtype=np.int8)
    for i in range(0, len(start), CHUNK):
        where = slice(i, i + CHUNK)
        found = part(where, excess)
        code[where] = found.code
        for name, array in out.items():
            array[where] = getattr(found, name)
    return Answer(code=code, excess=excess, **out)


def _central(
    steps: tuple[Array, Array, Array, Array],
    values: tuple[Array, Array, Array, Array],
    start: Array,
    unit: float,
    grain: float | Array,
    noise: Array | None,
    excess: float | None = None,
) -> Answer:
    a1, b1, a2, b2 = steps
    f1, g1, f2, g2 = values
    d1, d2 = (f1 - g1) / (a1 - b1), (f2 - g2) / (a2 - b2)
    right1, left1 = (f1 - start) / a1, (g1 - start) / b1
    right = 2.0 * right1 - (f2 - start) / a2
    left = 2.0 * left1 - (g2 - start) / b2
    drift, gap = np.abs(d1 - d2), np.abs(right - left)
    h = 0.5 * np.abs(a1 - b1)
    big = np.fmax(np.abs(right), np.abs(left))
    floor = unit * np.fmax(np.fmax(_finite(f2), _finite(g2)), np.abs(start))
    floor = floor + 0.5 * grain * _finite(big)
    if excess is None:
        moved = (f1 != start) | (g1 != start)
        excess = _pooled(gap * h / 4.2, floor, moved)  # √70 / 2 = 4.2
    sigma = floor * excess
    if noise is not None:
        sigma = np.fmax(sigma, noise)
    value = d1 + (d1 - d2) / 3.0
    bound = BOUND[0] * drift + BOUND[1] * gap + BOUND[2] * sigma / h
    bar = BAR[0] * drift + BAR[1] * gap + BAR[2] * sigma / h
    two, on_right = np.isfinite(bound), np.isfinite(right)
    if not two.all():
        one = np.where(on_right, right, left)
        bend = np.abs(one - np.where(on_right, right1, left1))
        h1 = np.where(on_right, np.abs(a1), np.abs(b1))
        value = np.where(two, value, one)
        bound = np.where(two, bound, SIDED[0] * bend + SIDED[1] * sigma / h1)
        bar = np.where(two, bar, SIDED_BAR[0] * bend + SIDED_BAR[1] * sigma / h1)
    code = np.zeros(np.shape(value), dtype=np.int8)
    bent = (gap * h > 24.0 * sigma) & (gap > 0.25 * big)
    ratio = np.abs((f2 - 2.0 * start + g2) / (f1 - 2.0 * start + g1))
    code[bent & (np.abs(ratio - 2.0) < 0.2)] = Code.KINK
    torn = np.abs((f2 - g2) / (f1 - g1) - 1.0) < 0.1
    torn |= bent & (np.abs(ratio - 1.0) < 0.1)
    code[torn & (np.fmax(drift, gap) * h > 100.0 * sigma)] = Code.JUMP
    # Steps that do not resolve the function; with many entries its noise is known.
    if value.size < MANY:
        rough = (bound > 2.0 * big) & (np.fmax(drift, gap) * h > 1e3 * floor)
        code[rough & (code == Code.OK)] = Code.NOISE
    if not two.all():
        code[~two & (bend > SINGULAR * np.abs(np.where(on_right, right1, left1)))] = (
            Code.DOMAIN
        )
    known = np.isfinite(value) & np.isfinite(bound) & np.isfinite(start)
    code[~known] = Code.DOMAIN
    rounding = 4.0 * MACHINE * np.abs(value) + TINY
    bound = np.where(known, bound + rounding, np.inf)
    return Answer(
        value=np.where(known, value, np.nan),
        bar=np.where(known, np.minimum(bar + rounding, bound), np.inf),
        bound=bound,
        noise=np.broadcast_to(sigma, np.shape(value)),
        code=code,
        left=left,
        right=right,
        excess=excess,
    )


def _finite(v: Array) -> Array:
    """|v|, 0 where it is not finite."""
    return np.where(np.isfinite(v), np.abs(v), 0.0)


def _pooled(sampled: Array, floor: Array, moved: Bools) -> float:
    """Noise over its floor, from the fourth differences of all entries that moved.

    One of exactly 0 counts too: where most are (a ReLU off its kinks), the few that are
    not say nothing of the others.
    """
    floor = np.broadcast_to(floor, np.shape(sampled))
    known = (floor > TINY) & np.isfinite(floor) & np.isfinite(sampled) & moved
    if not known.any():
        return 1.0
    return 1.0 + float(np.median(sampled[known] / floor[known])) / 0.67


def heard(
    answer: Answer,
    silent: Bools,
    far: Array,
    start: Array,
    at: float | Array,
    unit: float,
) -> Answer:
    """``answer``, with what two values at ±``at`` say of entries that did not move.

    A function that moves far away on one side only has a kink or a jump there, as a
    ReLU has, or has lost its tail in the rounding of what it adds up, as 1 + erf has:
    the derivative 0 stands, up to that rounding. One that moves on both sides may be a
    staircase: then the slope across its steps belongs to the bound.
    """
    with np.errstate(all="ignore"):
        moved = np.where(np.isfinite(far), np.abs(far - start), 0.0) / at
    both = silent & (moved > 0).all(axis=0)
    still = silent & (far == start).all(axis=0)
    slope = moved.max(axis=0)
    least = 4.0 * answer.noise / at + TINY
    lost = np.where(silent, 4.0 * unit * slope, 0.0)
    return replace(
        answer,
        bound=np.where(
            both,
            np.maximum(answer.bound, 4.0 * slope),
            np.where(still, least, answer.bound + lost),
        ),
        bar=np.where(
            both,
            np.maximum(answer.bar, 2.0 * slope),
            np.where(still, least, answer.bar + 0.25 * lost),
        ),
    )


def better(old: Answer, new: Answer) -> Answer:
    """Entry by entry the answer with the smaller bound, where the two agree."""
    with np.errstate(invalid="ignore"):
        which = np.abs(new.value - old.value) <= old.bound
        which &= (old.code == Code.OK) | (old.code == Code.NOISE)
        which &= (new.code == Code.OK) & (new.bound < old.bound)
    return merged(old, new, which)


def merged(old: Answer, new: Answer, which: Bools) -> Answer:
    """``old``, with the entries ``which`` taken from ``new``."""
    fields: dict[str, Any] = {
        n: np.where(which, getattr(new, n), getattr(old, n)) for n in FIELDS
    }
    return replace(old, **fields)


def joined(parts: list[Answer]) -> Answer:
    """One answer from several, along the first axis."""
    fields: dict[str, Any] = {
        n: np.concatenate([getattr(p, n) for p in parts]) for n in FIELDS
    }
    return replace(parts[0], **fields)


def withdrawn(answer: Answer, values: Array) -> Answer:
    """``answer`` without the entries whose ``values``, (4, …), are not all finite.

    How near the edge is, nobody knows; a slope from the other side may belong to a
    singularity that lies between the point and the step.
    """
    which = ~np.isfinite(values).all(axis=0)
    return replace(
        answer,
        value=np.where(which, np.nan, answer.value),
        bar=np.where(which, np.inf, answer.bar),
        bound=np.where(which, np.inf, answer.bound),
        code=np.where(which, np.int8(Code.DOMAIN), answer.code),
    )
