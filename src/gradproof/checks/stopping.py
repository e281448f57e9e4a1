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
FEWEST = 64  # points of a walk that is worth taking
CLOSE = 25  # points of a closer look, ZOOMS times
ZOOMS = 3
BUSY = 16.0  # other programs that may want the processor too
# Of each coordinate's scale, to either side: near, where small jumps stand out, and far,
# since a stop may come a step later only once x has changed by a good part of itself.
REACHES = (0.25, 0.75, 2.0)
ORDER = 4  # of the differences in which a jump stands out from a smooth function
PEAK = 3.0  # a unit jump shows in them as 1, −3, 3, −1
OUTSTANDING = 12.0
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
LAST_DIGITS = 1e-7


def stopping(
    primal: Primal, scales: Vector, rng: np.random.Generator, seconds: float = np.inf
) -> Vector | None:
    """Size of the jumps of each output along random lines; 0 where it has none.

    Args:
        primal: the function, asked at ``POINTS`` points on each of a few lines through
            its point, and more closely at the places that stand out.
        scales: the scale of each coordinate.
        rng: draws the lines.
        seconds: that all lines together may take. How many points that allows is
            planned from calls in the middle and at both ends of each: far out a solver
            may hardly converge.

    Returns:
        The largest jump of each output, in the output's own units; shape (m,). A kink
        is none: what it adds shrinks with the interval. None where no line could be
        walked in that time.
    """
    found = []
    for reach in REACHES:
        line = _Line(primal, scales * primal.domain.draw(rng), reach)
        each = max(_seconds(line, t) for t in (0.0, reach, -reach))
        calls = seconds / len(REACHES) / each
        points = min(POINTS, int(min(0.4 * calls, POINTS)))
        if points >= FEWEST:
            closer = CLOSE * ZOOMS
            places = int(np.clip(0.6 * calls / closer, 1, PLACES))
            found.append(_walk(line, points, places))
    return np.max(found, axis=0) if found else None


def _seconds(line: _Line, t: float) -> float:
    """What a call takes there, on a machine that does nothing else.

    The better of two, and of the processor's time, unless the call mostly waits for
    something else than the processor.
    """
    taken = []
    for _ in range(2):
        clock, own = time.perf_counter(), time.process_time()
        line(t)
        wall, own = time.perf_counter() - clock, time.process_time() - own
        taken.append(own if own > wall / BUSY else wall)
    return max(min(taken), 1e-9)


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


class _Line:
    """f along x + t u, |t| ≤ reach."""

    def __init__(self, primal: Primal, u: Vector, reach: float) -> None:
        self.primal, self.u, self.reach = primal, u, reach

    def __call__(self, t: float) -> Vector:
        """The value at t; NaN where the user's code failed."""
        domain = self.primal.domain
        x = np.clip(self.primal.point + t * self.u, domain.lows(), domain.highs())
        value = self.primal.value(domain.snap(x)).value
        return np.full(self.primal.codomain.size, np.nan) if value is None else value


def _walk(line: _Line, points: int, most: int) -> Vector:
    """The jumps along a line, the ``most`` plainest of them looked at closely."""
    out = np.zeros(line.primal.codomain.size)
    ts = np.linspace(-line.reach, line.reach, points)
    table = np.array([line(t) for t in ts])
    if not np.isfinite(table).all():
        return out
    rounding = 64 * line.primal.codomain.units() * np.abs(table).max(axis=0)
    for i in _places(table, rounding, most):
        out = np.maximum(out, _jump(line, ts[i], ts[i + ORDER], rounding))
    return out


def _differences(table: np.ndarray) -> np.ndarray:
    return np.abs(np.diff(table, ORDER, axis=0))


def _places(table: np.ndarray, rounding: Vector, most: int) -> list[int]:
    """Where some output does what its neighbourhood does not; the plainest first."""
    high = _differences(table)
    usual = np.maximum(np.median(high, axis=0), rounding)
    ratio = (high / np.where(usual > 0, usual, np.inf)).max(axis=1)
    places: list[int] = []
    for i in np.argsort(-ratio):
        if ratio[i] < OUTSTANDING or len(places) == most:
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
