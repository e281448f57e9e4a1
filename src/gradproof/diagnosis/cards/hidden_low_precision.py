"""Computed in a lower precision than its inputs have."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.card import COTANGENT, FIRST, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.requests import BlockAt, Request
from gradproof.space import Vector, unit
from gradproof.verdict import Block, Severity

# How many roundings of the lower precision may have piled up in one entry.
_PILED = 64.0
_NARROW = ("float32", "float16", "bfloat16")


def _match(look: Look) -> Match | None:
    found = _additivity(look) if look.layer == COTANGENT else _errors(look)
    if found is None or (look.layer == FIRST and not _drawn_anew(look)):
        return None
    error, what = found
    name = _precision(look, error)
    if name is None:
        return None
    wide = look.evidence.domain.leaves[0].precision
    harm = Severity.WARNING if unit(name) < 1e-6 else Severity.ERROR
    return Match(
        f"{look.name} computes in a lower precision than {wide}",
        (what, f"the errors look like rounding at the size of {name}, to both sides"),
        note="a tolerance for float32 lets this pass in float64",
        help=f"keep intermediates in {wide}: look for `.float()`, `.half()`, `.bfloat16()`, "
        "float32 constants and buffers",
        severity=harm,
        facts=("cast",),
    )


def _additivity(look: Look) -> tuple[float, str] | None:
    """Linear but for rounding: exact under powers of two, off by a little in a sum."""
    lin = look.linearity
    if lin is None or lin.broken() != ("additive",):
        return None
    assert lin.both is not None
    assert lin.other is not None
    gap, scale = np.abs(lin.both - lin.once - lin.other), np.zeros_like(lin.once)
    for leaf in look.leaves:
        size = np.maximum(np.abs(lin.once), np.abs(lin.other))[leaf.slice]
        scale[leaf.slice] = size.max(initial=0.0)
    error = _relative(gap, scale)
    return error, f"vjp(ȳ₁ + ȳ₂) is vjp(ȳ₁) + vjp(ȳ₂) only to {error:.1e} (relative)"


_KEY = "nudged"


def _wants(look: Look) -> tuple[Request, ...]:
    """The same Jacobian a hair away: rounding errors are drawn anew there."""
    b, e = look.evidence.block, look.evidence
    if look.layer != FIRST or b is None or _errors(look) is None:
        return ()
    return (BlockAt(_KEY, e.domain.snap(e.point * (1 + 2.0**-14)), b.rows, b.cols),)


def _drawn_anew(look: Look) -> bool:
    """Whether the errors are rounding: results of few bits, or other errors nearby."""
    b, there = look.evidence.block, look.evidence.answer(_KEY)
    for name in _NARROW:
        narrow = look.evidence.domain.with_precision(name)
        answers = [
            p.got for p in look.panels if p.cols.size == look.evidence.domain.size
        ]
        rows = [row for got in answers for row in got]
        if rows and all(np.array_equal(narrow.snap(row), row) for row in rows):
            return unit(name) > look.evidence.domain.unit
    if b is None or not isinstance(there, Block):
        return False
    known = (b.code == 0) & (there.code == 0)
    first = (b.implied - b.value)[known]
    second = (there.implied - there.value)[known]
    size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return size > 0 and abs(float(first @ second)) < 0.6 * size


def _errors(look: Look) -> tuple[float, str] | None:
    """Small errors of both signs, none of which is a share of its entry."""
    worst, signs, count = 0.0, [], 0
    for p in look.panels:
        if not np.isfinite(p.got).all():
            return None
        top = np.abs(p.want).max(axis=1, keepdims=True, initial=0.0)
        gap = np.where(p.ok, p.got - p.want, 0.0)
        worst = max(worst, _relative(np.abs(gap), np.broadcast_to(top, gap.shape)))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (gap / p.want)[p.bad & (p.want != 0)]
        signs.append(share)
        count += int(p.bad.sum())
    shares = np.concatenate(signs) if signs else np.zeros(0)
    if count < 3 or worst > 2e-2 or not (shares.min() < 0 < shares.max()):
        return None
    if np.median(np.abs(shares)) > 2e-2:
        return None
    return (
        worst,
        f"{count} entries are off by up to {worst:.1e} of the largest in their row",
    )


def _relative(gap: Vector, scale: Vector) -> float:
    live = scale > 0
    return float((gap[live] / scale[live]).max(initial=0.0))


def _precision(look: Look, error: float) -> str | None:
    """The finest lower precision whose roundings can make up such an error."""
    own = max(unit(leaf.precision) for leaf in look.evidence.domain)
    for name in _NARROW:
        if unit(name) > own and error <= _PILED * unit(name):
            return name if error >= unit(name) / 64 else None
    return None


CARD = Card(
    "hidden-low-precision",
    Severity.WARNING,
    45,
    _match,
    _wants,
    layers=(COTANGENT, FIRST),
)
