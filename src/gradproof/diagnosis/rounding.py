"""Small errors: are they rounding of a lower precision?"""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.look import Look
from gradproof.space import Vector, unit
from gradproof.verdict import Block

# How many roundings of the lower precision may have piled up in one entry.
_PILED = 64.0


_TELLING = 4  # different results of a forward, from which its precision can be told
_NARROW = ("float32", "float16", "bfloat16")


NUDGED = "nudged"


def few_bits(look: Look) -> bool:
    """Whether every result is a number of a lower precision."""
    domain = look.evidence.domain
    for name in (n for n in _NARROW if unit(n) > domain.unit):
        narrow, seen = domain.with_precision(name), 0
        for p in look.panels:
            full = np.zeros((len(p.got), domain.size))
            full[:, p.cols] = p.got
            if not all(np.array_equal(narrow.snap(row), row) for row in full):
                break
            seen += 1
        if seen == len(look.panels) and seen:
            return True
    return False


def forward_alike(look: Look, name: str) -> bool:
    """Whether the forward's results are numbers of that precision too."""
    e = look.evidence
    some = e.value[np.isfinite(e.value) & (e.value != 0)]
    if np.unique(np.abs(some)).size < _TELLING:
        return False
    narrow = e.codomain.with_precision(name)
    finite = np.where(np.isfinite(e.value), e.value, 0.0)
    return bool(np.array_equal(narrow.snap(finite), finite))


def drawn_anew(look: Look) -> bool:
    """Whether the errors a hair away have nothing to do with those here."""
    b, there = look.evidence.block, look.evidence.answer(NUDGED)
    if b is None or not isinstance(there, Block):
        return False
    first, second = b.implied - b.value, there.implied - there.value
    moved = np.abs(there.value - b.value) > 8 * np.abs(first)
    known = (b.code == 0) & (there.code == 0) & b.wrong & moved
    x, y = first[known], second[known]
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return len(x) >= 3 and size > 0 and abs(float(x @ y)) < 0.6 * size


def errors(look: Look) -> tuple[float, str] | None:
    """Errors that are small beside the entries around them, and no share of each."""
    worst, count = 0.0, 0
    signs: list[Vector] = []
    for p in look.panels:
        if not np.isfinite(p.got).all():
            return None
        top = float(np.abs(p.want).max(initial=0.0))
        gap = np.abs(p.got - p.want)[p.bad]
        worst = max(worst, float(gap.max(initial=0.0)) / top if top > 0 else np.inf)
        signs.append(np.sign(p.got - p.want)[p.bad])
        count += int(p.bad.sum())
    if not count or worst > 2e-2:
        return None
    both = np.unique(np.concatenate(signs)).size > 1
    if not (few_bits(look) or (both and count >= 3)):
        return None
    return (
        worst,
        f"{count} entries are off by up to {worst:.1e} of the largest entry",
    )


def _relative(gap: Vector, scale: Vector) -> float:
    live = scale > 0
    return float((gap[live] / scale[live]).max(initial=0.0))


def precision(look: Look, error: float) -> str | None:
    """The finest lower precision whose roundings can make up such an error."""
    own = max(unit(leaf.precision) for leaf in look.evidence.domain)
    for name in _NARROW:
        if unit(name) > own and error <= _PILED * unit(name):
            return name if error >= unit(name) / 64 else None
    return None


def additivity(look: Look) -> tuple[float, str] | None:
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
    return error, f"vjp(g₁ + g₂) is vjp(g₁) + vjp(g₂) only to {error:.1e} (relative)"
