"""Does the forward overflow at inputs where the function itself is tame?

The boundary of a true domain (log at 0, sqrt below 0, a pole) does not depend on the
precision that computes; the place where an intermediate overflows does. ``exp`` itself
overflows because its value does: near its boundary the value is as large as the format
can hold, and no warning is due.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from gradproof.rule import Bulk, Primal, Rule
from gradproof.space import Leaf, Vector, largest

# How far out to look, by precision: a little beyond the logarithm of its largest number.
REACH = {"float64": 1024.0, "float32": 128.0, "bfloat16": 128.0, "float16": 16.0}
OTHER = {
    "float64": "float32",
    "float32": "float64",
    "bfloat16": "float64",
    "float16": "float64",
}


@dataclass(frozen=True)
class Overflow:
    """Where the forward stops being finite, though the function is."""

    path: str
    x: float  # the magnitude (signed) beyond which the value is not finite
    value: float  # the value just before
    gave: str  # "inf" or "nan"
    elsewhere: str  # the other precision, whose boundary lies elsewhere


def overflow(rule: Rule) -> Overflow | None:
    """The first leaf and sign along which the forward overflows too early."""
    primal = rule.primal
    wider: Rule | None = None
    for leaf in primal.domain:
        reach = REACH[leaf.precision]
        if leaf.pattern or leaf.is_complex or not leaf.size:
            continue
        if leaf.low > -reach or leaf.high < reach:
            continue
        for sign in (1.0, -1.0):
            gave = _bad(primal, leaf, sign * reach)
            if not gave:
                continue
            edge = _edge(primal, leaf, sign, reach)
            if edge is None:
                continue
            before = _values(primal, leaf, sign * edge)
            size = float(np.abs(before).max(initial=0.0))
            if size > largest(leaf.precision) ** 0.25:
                continue
            wider = wider or rule.in_precision(OTHER[leaf.precision])
            if wider is None or not _moves(wider, leaf, sign, edge):
                continue
            value = float(before[int(np.argmax(np.abs(before)))])
            return Overflow(leaf.path, sign * edge, value, gave, OTHER[leaf.precision])
    return None


def tame(arrays: Bulk) -> bool:
    """Whether the forward stays finite wherever ``overflow`` looks first.

    Asked on the framework's own arrays, for what is large. A forward that raises there
    is not one that overflows.
    """
    for k, leaf in enumerate(arrays.domain):
        reach = REACH[leaf.precision]
        if leaf.is_complex or not leaf.size:
            continue
        size = abs(arrays.point[k])
        top = float(size.max())
        for sign in (1.0, -1.0):
            xs = [1 * x for x in arrays.point]
            size_there = 0 * size + 1 if top == 0 else (size / top).clip(min=0.5)
            xs[k] = sign * reach * size_there
            for value in arrays.value(xs) or ():
                if not isfinite(float(value.max()) - float(value.min())):
                    return False
    return True


def _set(primal: Primal, leaf: Leaf, number: float) -> Vector:
    """The point with the whole leaf scaled so that its largest entry is ``number``."""
    x = primal.point.copy()
    part = np.abs(x[leaf.slice])
    top = part.max(initial=0.0)
    x[leaf.slice] = number if top == 0 else number * np.maximum(part / top, 0.5)
    return primal.domain.snap(x)


def _values(primal: Primal, leaf: Leaf, number: float) -> Vector:
    value = primal.value(_set(primal, leaf, number)).value
    return np.full(1, np.nan) if value is None else value


def _bad(primal: Primal, leaf: Leaf, number: float) -> str:
    reply = primal.value(_set(primal, leaf, number)).value
    if reply is None or np.isfinite(reply).all():
        return ""
    return "nan" if np.isnan(reply).any() else "inf"


def _edge(primal: Primal, leaf: Leaf, sign: float, reach: float) -> float | None:
    """The last magnitude with finite values, to one part in 2²⁰ (None: none above 1)."""
    low, high = 1.0, reach
    if _bad(primal, leaf, sign * low):
        return None
    for _ in range(24):
        middle = 0.5 * (low + high)
        if _bad(primal, leaf, sign * middle):
            high = middle
        else:
            low = middle
    return low


def _moves(other: Rule, leaf: Leaf, sign: float, edge: float) -> bool:
    """Whether the boundary lies elsewhere in the other precision."""
    twin = next((a for a in other.primal.domain if a.path == leaf.path), None)
    if twin is None:
        return False
    reach = REACH[twin.precision]
    if not _bad(other.primal, twin, sign * reach):
        return True
    there = _edge(other.primal, twin, sign, reach)
    return there is not None and abs(there - edge) > 0.05 * edge
