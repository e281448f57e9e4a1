"""A rule that breaks a law of the cotangent on purpose: is it right for some cotangent?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.checks.rounding import own_rounding
from gradproof.oracles import Differences
from gradproof.rule import Rule
from gradproof.space import Vector
from gradproof.verdict import Code

# Far below any threshold of a clip, and a power of two.
SMALL = 2.0**-12
# What a projection of another map than the derivative is off by, at least; of the sum
# of the sizes of its terms.
APART = 1e-6


def right_somewhere(
    rule: Rule,
    oracle: Differences,
    x: Vector,
    ybar: Vector,
    tangents: list[Vector],
    rng: np.random.Generator,
    *,
    tolerate: float = 0.0,
) -> bool:
    """Whether vjp(x, ȳ), or vjp(x, ȳ) − vjp(x, 0), is Jᵀȳ for some ȳ that is tried.

    Compared are projections, ȳ·(J u) with x̄·u, for the tangents u. Those entries of ȳ
    whose derivative has no answer are 0. True where nothing could be seen.
    """
    ahead = [oracle.direction(u, "thorough") for u in tangents]
    known = np.all([e.code == Code.OK for e in ahead], axis=0)
    nothing = rule.vjp(x, np.zeros_like(ybar)).value
    seen = False
    for y in _tried(ybar):
        asked = rule.primal.codomain.snap(np.where(known, y, 0.0))
        got = rule.vjp(x, asked).value
        if got is None or not asked.any():
            continue
        own = own_rounding(rule, x, asked, got, rng)
        for off in (0.0, nothing):
            if off is None:
                continue
            right, clear = True, False
            for u, e in zip(tangents, ahead, strict=True):
                terms = np.where(known, asked * e.value, 0.0)
                gap = float(terms.sum() - (got - off) @ u)
                room = float(np.abs(asked[known]) @ e.bound[known] + own @ np.abs(u))
                room += (APART + tolerate) * float(np.abs(terms).sum())
                clear |= abs(float(terms.sum())) > room
                right &= abs(gap) <= room
            if right and clear:
                return True
            seen |= clear
    return not seen


def _tried(ybar: Vector) -> Iterator[Vector]:
    """Ones, as a loss sends; what no clip reaches; and one of length 1."""
    yield np.ones_like(ybar)
    yield SMALL * ybar
    yield ybar / max(float(np.linalg.norm(ybar)), np.finfo(float).tiny)
