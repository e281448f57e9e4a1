"""Does the forward stop early? Then it jumps a little wherever the stop comes a step later.

A solver that iterates to a tolerance is smooth between two such places, and there its
derivative is that of the truncated iteration; the rule's is that of the solution. The
size of the jumps says how far the two may be apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from gradproof.rule import Primal
from gradproof.space import Matrix, Space, Vector
from gradproof.verdict import Block

POINTS = 192
CLOSE = 25  # points of a closer look, ZOOMS times
ZOOMS = 3
# Of each coordinate's scale, to either side: near, where small jumps stand out, and far,
# since a stop may come a step later only once x has changed by a good part of itself.
REACHES = (0.25, 0.75, 2.0)
ORDER = 4  # of the differences in which a jump stands out from a smooth function
PEAK = 3.0  # a unit jump shows in them as 1, −3, 3, −1
OUTSTANDING = 12.0
SECONDS = 4.0  # that all walks together may take
SMALL = 1e-3  # a larger jump, relative to the value, is none of a solver's
PLACES = 4  # looked at closely, at most
# Iterations that stop within a tolerance of the solution have derivatives that are
# further off than their values, by about the number of iterations.
ITERATIONS = 64.0
# A minimum (an optimal transport cost, an energy) jumps by the square of how far the
# iterate is off, and its gradient by that itself; only so small a jump may be a minimum's.
OPTIMAL = 1e-9
ROOT = 4.0
# An entry this close to the derivative, relative to itself or to a hundredth of the
# largest, differs by less than float32 can tell: a truncation, but no mistake.
LAST_DIGITS = 2.0**-22


def stopping(primal: Primal, scales: Vector, rng: np.random.Generator) -> Vector:
    """Size of the jumps of each output along random lines; 0 where it has none.

    Args:
        primal: the function, asked at ``POINTS`` points on each of a few lines through
            its point, and more closely at the places that stand out.
        scales: the scale of each coordinate.
        rng: draws the lines.

    Returns:
        The largest jump of each output, in the output's own units; shape (m,). A kink
        is none: what it adds shrinks with the interval.
    """
    out = np.zeros(primal.codomain.size)
    end = time.perf_counter() + SECONDS
    for reach in REACHES:
        u = scales * primal.domain.draw(rng)
        try:
            out = np.maximum(out, _walk(primal, u, reach, end))
        except _TooLong:
            break
    return out


def excused(jumps: Vector, value: Vector, scales: Vector) -> Matrix:
    """How far each entry may be off where the forward stops early; shape (m, n).

    Args:
        jumps: of each output, as ``stopping`` has them.
        value: the outputs.
        scales: of each coordinate.
    """
    size = np.abs(np.where(np.isfinite(value), value, 0.0))
    minimum = np.where(jumps <= OPTIMAL * size, ROOT * np.sqrt(jumps * size), 0.0)
    room: Matrix = np.maximum(ITERATIONS * jumps, minimum)[:, None] / scales[None, :]
    return room


def last_digits(block: Block, domain: Space, codomain: Space) -> Matrix:
    """What each entry of a whole block may be off by in its last digits alone."""
    size = np.abs(np.where(np.isfinite(block.value), block.value, 0.0))
    room = np.empty_like(size)
    for out in codomain:
        for leaf in domain:
            part = size[out.slice, leaf.slice]
            top = float(part.max(initial=0.0))
            room[out.slice, leaf.slice] = LAST_DIGITS * np.maximum(part, 1e-2 * top)
    return room


class _TooLong(Exception):
    """The walk has taken what it may: far out a solver may never converge."""


def _walk(primal: Primal, u: Vector, reach: float, end: float) -> Vector:
    """The jumps along x + t u, |t| ≤ reach; until ``end`` on the clock."""

    def ask(t: float) -> Vector:
        if time.perf_counter() > end:
            raise _TooLong
        x = np.clip(primal.point + t * u, primal.domain.lows(), primal.domain.highs())
        value = primal.value(primal.domain.snap(x)).value
        return np.full(primal.codomain.size, np.nan) if value is None else value

    out = np.zeros(primal.codomain.size)
    ts = np.linspace(-reach, reach, POINTS)
    table = np.array([ask(t) for t in ts])
    if not np.isfinite(table).all():
        return out
    rounding = 64 * primal.codomain.units() * np.abs(table).max(axis=0)
    for i in _places(table, rounding):
        out = np.maximum(out, _jump(ask, ts[i], ts[i + ORDER], rounding))
    return out


def _differences(table: np.ndarray) -> np.ndarray:
    return np.abs(np.diff(table, ORDER, axis=0))


def _places(table: np.ndarray, rounding: Vector) -> list[int]:
    """Where some output does what its neighbourhood does not; the plainest first."""
    high = _differences(table)
    usual = np.maximum(np.median(high, axis=0), rounding)
    ratio = (high / np.where(usual > 0, usual, np.inf)).max(axis=1)
    places: list[int] = []
    for i in np.argsort(-ratio):
        if ratio[i] < OUTSTANDING or len(places) == PLACES:
            break
        if all(abs(i - p) > ORDER for p in places):
            places.append(int(i))
    return places


def _jump(
    ask: Callable[[float], Vector], a: float, b: float, rounding: Vector
) -> Vector:
    """The jump between a and b: what does not shrink when one looks closer."""
    sizes = []
    for _ in range(ZOOMS):
        ts = np.linspace(a, b, CLOSE)
        table = np.array([ask(t) for t in ts])
        if not np.isfinite(table).all():
            return np.zeros_like(rounding)
        high = _differences(table)
        i = int(np.argmax((high / np.maximum(rounding, 1e-300)).max(axis=1)))
        sizes.append(high[max(0, i - ORDER) : i + ORDER + 1].max(axis=0) / PEAK)
        a, b = ts[i], ts[i + ORDER]
    stays = (sizes[-1] > 0.3 * sizes[0]) & (sizes[-1] > rounding)
    stays &= sizes[-1] < SMALL * np.abs(table).max(axis=0)
    return np.where(stays, sizes[-1], 0.0)
