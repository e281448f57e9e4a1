"""The door of this room: one function of one variable, its derivative at 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gradproof.numdiff import noise as noise_
from gradproof.numdiff import quick, roughness, thorough
from gradproof.numdiff.quick import Answer
from gradproof.numdiff.sampling import (
    Counted,
    Phi,
    Samples,
    every_octave,
    ladder,
    power_of_two,
    take,
)
from gradproof.numdiff.types import Array
from gradproof.space import Vector
from gradproof.verdict import Code, Curve, Estimate

Plan: TypeAlias = Literal["quick", "thorough"]

CLOSER = 64.0  # where a value is not finite, steps are made smaller by this
RETRIES = 3
CLOSEST = 2.0**-14  # of the reach, the smallest scale of a function that is not noise


def differentiate(
    phi: Phi,
    *,
    reach: float,
    grain: float,
    unit: float,
    low: float = -np.inf,
    high: float = np.inf,
    plan: Plan = "thorough",
    start: Vector | None = None,
    noise: Vector | None = None,
) -> Estimate:
    """dφ/dt at t = 0, output by output, with bar and bound.

    Args:
        phi: t ↦ φ(t), of shape (m,). Must not raise; a failure is a vector of NaN.
        reach: the largest |t| that makes sense, in units of t.
        grain: the smallest step that moves the argument representably.
        unit: unit roundoff of the precision that φ computes in.
        low: the smallest t that may be asked (≤ 0).
        high: the largest t that may be asked (≥ 0).
        plan: "quick" takes about five values, "thorough" 30 to 60.
        start: φ(0), where known.
        noise: r.m.s. noise of each output where measured before (quick only).

    Returns:
        An ``Estimate`` whose arrays have shape (m,). An entry whose code is not OK has
        no answer: its bound is infinite, unless its code is NOISE.
    """
    counted = Counted(phi, start, low, high)
    zero = counted(0.0)
    span = min(reach, max(-low, high))
    grain = max(grain, np.finfo(float).tiny)
    if not span >= grain:
        return _estimate(_nothing(zero, Code.SCALE), counted, (), 0)
    if plan == "quick":
        return _quick(counted, zero, span, grain, unit, noise)
    h = ladder(power_of_two(span), grain)
    samples = take(counted, h, zero, unit, grain)
    judged = roughness.look(counted, samples, thorough.judge(samples), grain)
    answer = _closer(counted, samples, judged.answer, grain)
    return _estimate(
        answer, counted, tuple(h.tolist()), 4, _curve(samples.h, samples, answer)
    )


def _closer(phi: Counted, s: Samples, answer: Answer, grain: float) -> Answer:
    """``answer``, with all octaves of steps where those of the ladder showed nothing.

    A pole somewhat below the reach leaves too few steps that resolve it. What is smooth
    only far below it is noise to whoever asks.
    """
    lost = answer.code == Code.NOISE
    top = float(s.h[0])
    h = every_octave(top, max(grain, top * CLOSEST / 64.0))
    if not lost.any() or len(h) == len(s.h):
        return answer
    finer = take(phi, h, s.start, s.unit, grain)
    judged = roughness.look(phi, finer, thorough.judge(finer), grain)
    # What stands still there is a stair, whose slope of 0 nobody means.
    found = (judged.answer.code == Code.OK) & (judged.answer.value != 0)
    found &= judged.step >= CLOSEST * top
    return quick.merged(answer, judged.answer, lost & found)


def _quick(
    phi: Counted, zero: Array, span: float, grain: float, unit: float,
    noise: Vector | None,
) -> Estimate:  # fmt: skip
    room = min(-phi.low, phi.high)  # on the shorter side
    h = max(power_of_two(span) * quick.step_ratio(unit), power_of_two(grain) * 2)
    while room < 2 * h and room >= 64 * grain and h > 16 * grain:
        h /= 2
    few = _Few(phi, zero, unit, grain)
    answer, values = few.at(h, noise)
    fine = _finite(values)
    for _ in range(0 if fine else RETRIES):
        lost = np.isfinite(zero) & ~np.isfinite(values).all(axis=0)
        if not lost.any() or h / CLOSER < 16 * grain or room < 2 * h:
            break
        h /= CLOSER
        again, finer = few.at(h, noise)
        found = lost & np.isfinite(finer).all(axis=0)
        answer = quick.merged(answer, again, found)
        values = np.where(found, finer, values)
    if room >= 2 * h and not fine:
        answer = quick.withdrawn(answer, values)
    if answer.excess > quick.NOISY:
        if noise is None and zero.size < quick.MANY:
            noise = few.noise(h)
            answer = few.at(h, noise)[0]
        wide = power_of_two(span) * quick.step_ratio(unit * answer.excess)
        if room >= 2 * wide > 2 * h:
            other, wider = few.at(wide, noise)
            if not _finite(wider):
                other = quick.withdrawn(other, wider)
            answer = quick.better(answer, other)
    silent = values[0] == zero
    for k in range(1, len(values) if silent.any() else 0):
        silent &= values[k] == zero
    if silent.any():
        far = power_of_two(span)
        ends = np.stack([phi(far), phi(-far)])
        ends = np.where(np.isfinite(ends), ends, zero)
        answer = quick.heard(answer, silent, ends, zero, far, unit)
    return _estimate(answer, phi, (h, 2 * h), 4)


@dataclass(frozen=True, eq=False)
class _Few:
    """The quick plan's values of one function."""

    phi: Counted
    zero: Array
    unit: float
    grain: float

    def at(self, h: float, noise: Vector | None) -> tuple[Answer, Array]:
        """The estimate from ±h and ±2h, and the values (NaN outside the range)."""
        values = np.empty((4, self.zero.size))
        at = (h, -h, 2 * h, -2 * h)
        for row, t in zip(values, at, strict=True):
            row[...] = self.phi(t)
        steps = tuple(np.array(t) for t in at)
        rows = (values[0], values[1], values[2], values[3])
        answer = quick.central(
            (steps[0], steps[1], steps[2], steps[3]),
            rows,
            self.zero,
            self.unit,
            self.grain,
            noise,
        )
        return answer, values

    def noise(self, h: float) -> Vector:
        """Noise of each output from nine values in [−h, h]; three times, for safety."""
        values = np.array([self.phi(t) for t in (h * np.linspace(-1, 1, 9)).tolist()])
        with np.errstate(all="ignore"):
            sigma = 3.0 * noise_.table(values)
        return np.where(np.isfinite(sigma), sigma, 0.0)


def _finite(values: Array) -> bool:
    """Whether all are finite; their sum is, then. Row by row, to save memory."""
    return all(
        bool(np.isfinite(row.sum())) or bool(np.isfinite(row).all()) for row in values
    )


def _nothing(zero: Array, code: Code) -> Answer:
    nan, inf = np.full_like(zero, np.nan), np.full_like(zero, np.inf)
    codes = np.full(len(zero), code, dtype=np.int8)
    return Answer(nan, inf, inf.copy(), nan.copy(), codes, nan.copy(), nan.copy())


def _estimate(
    answer: Answer,
    phi: Counted,
    steps: tuple[float, ...],
    order: int,
    curve: Curve | None = None,
) -> Estimate:
    return Estimate(
        value=answer.value,
        bar=answer.bar,
        bound=answer.bound,
        noise=answer.noise,
        code=answer.code,
        order=order,
        steps=steps,
        evaluations=phi.evaluations,
        left=answer.left,
        right=answer.right,
        curve=curve,
    )


def _curve(h: Array, samples: Samples, answer: Answer) -> Curve | None:
    """Error against step of the output that is known least well."""
    right, left = samples.right, samples.left
    if not len(answer.value):
        return None
    with np.errstate(all="ignore"):
        worth = np.where(
            np.isfinite(answer.value), answer.bar / np.abs(answer.value), np.inf
        )
        i = int(np.argmax(np.where(answer.code != Code.OK, np.inf, worth)))
        d = (right[:, i] - left[:, i]) / (2 * h)
        error = np.abs(d - answer.value[i])
    return Curve("error against step", "step", "|D(h) − derivative|", h, error)
