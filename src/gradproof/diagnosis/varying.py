"""A ratio that is one number here: is it a constant, or does it change with the input?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.diagnosis.algebra import Ratio, ratio
from gradproof.diagnosis.look import Look, of_probes
from gradproof.diagnosis.requests import At, Coordinates, Request
from gradproof.space import Vector
from gradproof.verdict import Probe

KEY = "ratio elsewhere"
FEW = 4  # entries of each wrong leaf that are measured there, fewer where many are


def wanted(look: Look) -> tuple[Request, ...]:
    """One vjp some way off, where everything wrong is off by one number here."""
    if not look.wrong_leaves or ratio(look.panels) is None:
        return ()
    return nearby(look)


def nearby(look: Look) -> tuple[Request, ...]:
    """One vjp some way off, in a few entries."""
    e = look.evidence
    i = np.arange(e.domain.size)
    size = np.maximum(np.abs(e.point), 0.25)
    moved = e.point + size * (np.cos(i + 1.0) / 16 + np.sin(3.0 * i) / 64)
    x = e.domain.snap(np.clip(moved, e.domain.lows(), e.domain.highs()))
    ybar = e.probes[0].cotangent if e.probes else np.ones(e.codomain.size)
    return (At(KEY, x, ybar, few_wrong(look)),)


def few_wrong(look: Look) -> Coordinates:
    """Of each wrong leaf the coordinates where most is due."""
    due = np.zeros(look.evidence.domain.size)
    for p in look.panels:
        size = np.where(p.ok, np.abs(p.want), 0.0).max(axis=0, initial=0.0)
        due[p.cols] = np.maximum(due[p.cols], size)
    each = min(FEW, max(2, 2 * FEW // len(look.wrong_leaves)))
    picked = [
        leaf.start + _largest(due[leaf.slice], each) for leaf in look.wrong_leaves
    ]
    return np.sort(np.concatenate(picked))


def _largest(v: Vector, count: int) -> Coordinates:
    """Where the largest few are, the first of equal ones."""
    count = min(count, len(v))
    some = np.flatnonzero(v >= np.partition(v, -count)[-count])
    return some[np.argsort(-v[some], kind="stable")[:count]]


def elsewhere(look: Look) -> Ratio | None:
    """The ratio at that other point, where it was measured."""
    answer = look.evidence.answer(KEY)
    if not isinstance(answer, Probe):
        return None
    panel = of_probes((answer,))
    mine = np.zeros(look.evidence.domain.size, bool)
    for leaf in look.leaves:
        mine[leaf.slice] = True
    return ratio([panel.part(None, mine)])


def varies(look: Look, here: Ratio) -> bool:
    """Whether the other point refutes that the ratio is a constant."""
    answer = look.evidence.answer(KEY)
    if not isinstance(answer, Probe):
        return False
    there = elsewhere(look)
    return there is None or there.high < here.low or there.low > here.high


def named(look: Look, here: Ratio) -> str:
    """What the missing factor (1 / ratio) is, of the scalars and norms in sight."""
    if here.high - here.low > 1e-3 * abs(here.mid):
        return ""
    for text, value in _scalars(look):
        for word, number in (
            (text, value), (f"1/{text}", 1 / value if value else 0.0),
            (f"{text}²", value * value), (f"1/{text}²", 1 / value**2 if value else 0.0),
        ):  # fmt: skip
            if number and here.holds(1 / number):
                return word
    return ""


def _scalars(look: Look) -> Iterator[tuple[str, float]]:
    e = look.evidence
    for leaf in e.codomain:
        if leaf.size == 1:
            yield leaf.path, float(look.output_of(leaf)[0])
    for leaf in e.domain:
        value = look.value_of(leaf)
        if leaf.size == 1:
            yield leaf.path, float(value[0])
            continue
        yield f"‖{leaf.path}‖", float(np.linalg.norm(value))
        yield f"sum({leaf.path})", float(value.sum())
        yield f"mean({leaf.path})", float(value.mean())
