"""Conditions on values that tell the wrong entries from the right ones."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import known_columns
from gradproof.diagnosis.words import number
from gradproof.space import Leaf, Mask, Vector


def predicate(look: Look, wrong: Mask) -> str:
    """What the values of the wrong columns share and those of the right ones lack.

    "" when nothing simple separates them, or when one leaf is not all that is wrong.
    """
    if len(look.wrong_leaves) != 1:
        return ""
    leaf = look.wrong_leaves[0]
    known = known_columns(look)[leaf.slice]
    bad = wrong[leaf.slice]
    return separates(look.value_of(leaf), bad, known & ~bad, leaf)


def separates(x: Vector, bad: Mask, good: Mask, leaf: Leaf) -> str:
    """The simplest condition that holds on all of ``bad`` and on none of ``good``."""
    name = leaf.path
    if not bad.any() or not np.isfinite(x[good]).all():
        return ""
    a, b = x[bad], x[good]
    if not np.isfinite(a).all():
        return "" if np.isfinite(a).any() else f"{name} is not finite"
    if (a == 0).all() and not (b == 0).any():
        return f"{name} = 0"
    if not len(b):
        return ""
    if (a < 0).all() and not (b < 0).any():
        return f"{name} < 0"
    if (a > 0).all() and not (b > 0).any():
        return f"{name} > 0"
    if a.min() > b.max():
        return f"{name} > {_between(float(b.max()), float(a.min()))}"
    if a.max() < b.min():
        return f"{name} < {_between(float(a.max()), float(b.min()))}"
    size, rest = np.abs(a), np.abs(b)
    if size.min() > rest.max():
        return f"|{name}| > {_between(float(rest.max()), float(size.min()))}"
    if size.max() < rest.min():
        return f"|{name}| < {_between(float(size.max()), float(rest.min()))}"
    values, counts = np.unique(x[bad | good], return_counts=True)
    ties = np.isin(x, values[counts > 1])
    if ties[bad].all() and not ties[good].any():
        return f"an entry of {name} is tied with another"
    return ""


def _between(low: float, high: float) -> str:
    """The roundest number in [low, high)."""
    for digits in range(-2, 12):
        step = 10.0**-digits
        at = np.ceil(low / step) * step
        if low <= at < high:
            return number(float(at))
    return number(low)
