"""What a reader may want to see drawn: the error against the step, the Taylor remainder.

For the worst entry, or the first that was measured where all agree. A right rule leaves
a remainder that falls with the square of the step, a wrong one with the step itself; the
error of the central difference falls and rises again where rounding takes over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradproof.checks.gradient import Compared
from gradproof.oracles import Differences, chart, settled
from gradproof.rule import Primal
from gradproof.space import Vector
from gradproof.verdict import Block, Code, Curve, Direction

STEPS = 20
FEWER = 7  # of a slow function
FACTOR = 4.0
SECONDS = 1.0  # that the curves may take, as planned from one call

ERROR = "error against step of {what}"
TAYLOR = "Taylor remainder of {what}"
STEP = "step"
ERROR_AXIS = "|D(h) − derivative|"
TAYLOR_AXIS = "|f(x + h) − f(x) − h·rule|"
A_DIRECTION = "a direction"


@dataclass(frozen=True, eq=False)
class _Line:
    """One number as a function of one step, with the slopes said of it."""

    what: str
    tangent: Vector
    weight: Vector  # of the outputs
    rule: float
    truth: float


def curves(primal: Primal, found: Compared) -> tuple[Curve, ...]:
    """The curves at ``found.point``, of ``primal``; () where nothing was measured."""
    line = _line(primal, found)
    if line is None:
        return ()
    x = found.point
    oracle = Differences(primal, x)
    clock = time.perf_counter()
    start = _number(line, oracle.ask(x))
    once = time.perf_counter() - clock
    count = STEPS if 2 * STEPS * once <= SECONDS else FEWER
    factor = FACTOR ** ((STEPS - 1) / (count - 1))
    live = line.tangent != 0
    if not live.any() or not np.isfinite(start):
        return ()
    top = float((oracle.scales()[live] / np.abs(line.tangent[live])).min())
    at = _path(primal, x, line)
    steps, errors, remainders = [], [], []
    for k in range(count):
        h = top / factor**k
        there, back = at(h), at(-h)
        moved = _moved(line, there - x), -_moved(line, back - x)
        if not (moved[0] > 0 and moved[1] > 0):
            continue  # below the spacing of x
        ahead, behind = (_number(line, oracle.ask(p)) for p in (there, back))
        slope = (ahead - behind) / (moved[0] + moved[1])
        steps.append(moved[0])
        errors.append(abs(slope - line.truth))
        remainders.append(abs(ahead - start - moved[0] * line.rule))
    h_all = np.array(steps)
    return (
        Curve(ERROR.format(what=line.what), STEP, ERROR_AXIS, h_all, np.array(errors)),
        Curve(
            TAYLOR.format(what=line.what),
            STEP,
            TAYLOR_AXIS,
            h_all,
            np.array(remainders),
        ),
    )


def _number(line: _Line, value: Vector) -> float:
    """<weight, value>; outputs of weight zero may be anything."""
    return float(line.weight @ np.where(line.weight != 0, value, 0.0))


def _moved(line: _Line, step: Vector) -> float:
    """The t of a step t·u."""
    return float(step @ line.tangent) / float(line.tangent @ line.tangent)


def _path(primal: Primal, x: Vector, line: _Line) -> Callable[[float], Vector]:
    """T ↦ x + t·u, inside the bounds and along the sets of the domain."""
    domain = primal.domain

    def at(t: float) -> Vector:
        y = np.clip(x + t * line.tangent, domain.lows(), domain.highs())
        return domain.snap(settled(domain, x, y))

    return at


def _line(primal: Primal, found: Compared) -> _Line | None:
    b = found.block
    if b is not None and b.code.size:
        entry = _entry(b)
        if entry is not None:
            return _of_entry(primal, found.point, b, *entry)
    if not found.directions:
        return None
    d = max(found.directions, key=_offness)
    return _Line(A_DIRECTION, d.tangent, d.cotangent, d.got, d.expected)


def _offness(d: Direction) -> float:
    if d.code != Code.OK or d.left_out:
        return -1.0
    return abs(d.got - d.expected) / d.bound if d.bound > 0 else 0.0


def _entry(b: Block) -> tuple[int, int] | None:
    """Row and column of the worst entry; of the first live one where none is wrong."""
    known = (b.code == Code.OK) & np.isfinite(b.value) & np.isfinite(b.implied)
    if not known.any():
        return None
    wrong = b.wrong & known
    if wrong.any():
        gap = np.where(wrong, np.abs(b.implied - b.value), -1.0)
        i, j = np.unravel_index(int(np.argmax(gap)), gap.shape)
        return int(i), int(j)
    live = known & (b.value != 0)
    i, j = np.argwhere(live if live.any() else known)[0]
    return int(i), int(j)


def _of_entry(primal: Primal, x: Vector, b: Block, i: int, j: int) -> _Line:
    row, col = int(b.rows[i]), int(b.cols[j])
    tangent = np.zeros(primal.domain.size)
    tangent[col] = 1.0
    at = chart(primal.domain, x)
    if at is not None:
        tangent = at.project(tangent)
    weight = np.zeros(primal.codomain.size)
    weight[row] = 1.0
    what = f"{primal.codomain.place(row)} by {primal.domain.place(col)}"
    return _Line(what, tangent, weight, float(b.implied[i, j]), float(b.value[i, j]))
