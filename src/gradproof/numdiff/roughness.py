"""A second look at functions that are smooth only at a scale far below the reach.

A solver that stops early, a table, or float32 inside a float64 function is piecewise
smooth: its derivative between two jumps is well defined, precise, and not what anyone
means. Where the window of an output was closed by a jump (found by bisection, since a
kink or an oscillation is continuous), the function is judged once more from steps above
the jump with the jump as its noise, and the answer covers both slopes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradproof.numdiff import thorough
from gradproof.numdiff.quick import Answer
from gradproof.numdiff.sampling import Counted, Samples
from gradproof.numdiff.thorough import FINE, TEETH, Judged
from gradproof.numdiff.types import Array
from gradproof.verdict import Code

LOOKED = 4  # outputs that are looked at
CLOSED = 4.0  # a window this much below the reach was closed by something
FAR = 16.0  # how far beyond the window its end is looked for
NODES = np.array([0.0, 0.5, -0.5, 0.75, -0.75, 1.0, -1.0])
HALVINGS = 14  # of the interval that holds the jump
VISIBLE = 100.0  # times the noise a jump must be
STEEPER = 16.0  # than the departure as a whole, if it is a jump
PERSIST = 3  # the last of them, over which a jump stays what it is
ROWS = 8  # steps needed above the jump
DENSE = 12  # steps above the jump below which those between are taken as well
COVERED = 0.25  # an answer that covers both slopes may be this uncertain


@dataclass(frozen=True)
class Jump:
    """A discontinuity of one output: where it is, and by how much."""

    at: float
    size: float


def look(phi: Counted, s: Samples, judged: Judged, grain: float) -> Judged:
    """The answer, amended where jumps closed the windows."""
    code, step = judged.answer.code, judged.step
    closed = (code == Code.OK) & (step > 0) & (step * CLOSED < s.h[0])
    closed &= np.isfinite(s.right[-1]) & np.isfinite(s.left[-1])
    for _ in range(LOOKED):
        if not closed.any():
            break
        steps, counts = np.unique(step[closed], return_counts=True)
        alike = closed & (step == steps[counts.argmax()])
        closed &= ~alike
        jump = _jump(phi, s, judged, int(np.flatnonzero(alike)[0]), grain)
        if jump is not None:
            judged = _amended(phi, s, judged, np.flatnonzero(alike), jump)
    return judged


def _jump(
    phi: Counted, s: Samples, judged: Judged, i: int, grain: float
) -> Jump | None:
    """The jump of output ``i`` nearest to 0, if a jump is what closed its window."""
    h = float(judged.step[i])
    nodes = h * NODES
    known = np.array([phi(_on_grid(t, grain))[i] for t in nodes.tolist()])
    if not np.isfinite(known).all():
        return None
    noise = float(np.hypot(judged.answer.noise[i], s.unit * np.abs(known).max()))

    def off(t: float) -> tuple[float, bool]:
        """Distance from what the window foretells, and whether it is visible."""
        weights = _lagrange(nodes, t)
        gap = abs(float(phi(t)[i] - weights @ known))
        return gap, gap > 30.0 * noise * float(np.abs(weights).sum())

    inner = h
    while inner < FAR * h and inner < s.h[0]:
        for sign in (1.0, -1.0):
            if off(sign * 2.0 * inner)[1]:
                ends = sign * inner, sign * 2.0 * inner
                return _bisected(off, *ends, grain, VISIBLE * noise)
        inner *= 2.0
    return None


def _on_grid(t: float, grain: float) -> float:
    return float(np.round(t / grain)) * grain if grain > 0 else t


def _lagrange(nodes: Array, t: float) -> Array:
    """Weights of polynomial extrapolation from ``nodes`` to t."""
    gap = nodes[:, None] - nodes[None, :]
    np.fill_diagonal(gap, 1.0)
    to = np.tile(t - nodes, (len(nodes), 1))
    np.fill_diagonal(to, 1.0)
    out: Array = np.prod(to / gap, axis=1)
    return out


def _bisected(
    off: Callable[[float], tuple[float, bool]],
    a: float,
    b: float,
    grain: float,
    least: float,
) -> Jump | None:
    """Close in on the first visible departure between ``a`` and ``b``."""
    sizes = [off(b)[0] - off(a)[0]]
    for _ in range(HALVINGS):
        middle = _on_grid(0.5 * (a + b), grain)
        if middle in (a, b):
            break
        if off(middle)[1]:
            b = middle
        else:
            a = middle
        sizes.append(off(b)[0] - off(a)[0])
    # What is continuous departs little by little: halving the interval halves it, until
    # both ends are barely visible.
    if len(sizes) <= PERSIST or sizes[-1] < max(PERSIST * off(a)[0], least):
        return None
    sudden = sizes[-1] > STEEPER * 0.5 ** (len(sizes) - 1) * max(sizes)
    lasting = sizes[-1] > 0.6 * sizes[-1 - PERSIST]
    return Jump(abs(b), sizes[-1]) if sudden and lasting else None


def _amended(
    phi: Counted, s: Samples, judged: Judged, which: np.ndarray, jump: Jump
) -> Judged:
    """The answers of outputs ``which`` in view of the slope across the jumps."""
    outer = s.h[s.h > 2.0 * jump.at]
    if len(outer) < DENSE:
        between = s.h[0] * np.outer(2.0 ** -np.arange(8.0), [0.875, 0.625]).ravel()
        outer = np.union1d(outer, between[between > 2.0 * jump.at])[::-1]
    if len(outer) < ROWS:
        return _aside(judged, which, jump)
    wide = Samples(
        outer,
        s.start[which],
        np.array([phi(t)[which] for t in outer.tolist()]),
        np.array([phi(-t)[which] for t in outer.tolist()]),
        np.maximum(s.sigma[which], 0.3 * jump.size),
        s.unit,
    )
    across = thorough.judge(wide).answer
    near = judged.answer
    value, bound, bar = near.value[which], near.bound[which], near.bar[which]
    with np.errstate(all="ignore"):
        apart = np.abs(value - across.value)
        both = apart + across.bound
        teeth = 2.0 * s.h[0] * apart / jump.size
        size = np.maximum(np.abs(value), np.abs(across.value))
    fair = both <= COVERED * size
    stepwise = ~fair & ~((teeth >= TEETH) & (apart > across.bound))
    fine = ~fair & ~stepwise & (teeth >= FINE) & (across.bound <= COVERED * size)
    lost = ~fair & ~stepwise & ~fine
    far = fine | lost
    code = near.code[which].copy()
    code[lost] = Code.NOISE
    new = {
        "value": np.where(far, across.value, value),
        "bound": np.where(fair | lost, both, np.where(fine, across.bound, bound)),
        "bar": np.where(fair, apart + across.bar, np.where(far, across.bar, bar)),
        "code": code,
        "noise": np.where(far | fair, np.maximum(near.noise[which], 0.3 * jump.size),
                          near.noise[which]),
        "left": np.where(far, across.left, near.left[which]),
        "right": np.where(far, across.right, near.right[which]),
    }  # fmt: skip
    return replace(judged, answer=_replaced(near, which, new))


def _aside(judged: Judged, which: np.ndarray, jump: Jump) -> Judged:
    """A jump near the reach: a solver's error may have this slope up to there."""
    near = judged.answer
    slope = jump.size / jump.at
    room = np.where(slope <= COVERED * np.abs(near.value[which]), slope, 0.0)
    new = {"bound": near.bound[which] + 2.0 * room, "bar": near.bar[which] + room}
    return replace(judged, answer=_replaced(near, which, new))


def _replaced(answer: Answer, which: np.ndarray, new: dict[str, Array]) -> Answer:
    changed: dict[str, Any] = {}
    for name, part in new.items():
        changed[name] = getattr(answer, name).copy()
        changed[name][which] = part
    return replace(answer, **changed)
