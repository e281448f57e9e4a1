"""Charts of the sets that inputs may lie in, so that derivatives are taken along them.

Where an input is declared symmetric, of unit length, a point of the simplex …, a
function may mean nothing off the set, and two gradients that differ only across it are
the same. A chart names the points of the set near x by plain coordinates s, with x(s)
its parametrisation (a retraction in the sense of Absil, Mahony & Sepulchre 2008,
section 4.1), C = dx/ds at the point, and D with DᵀC = 1. Derivatives of f(x(s)) by s are
J C; J C Dᵀ = J P, with P the orthogonal projector on the tangent space.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gradproof.oracles.sets import Set, set_of
from gradproof.rule import Primal, Reply
from gradproof.space import Leaf, Space, Vector
from gradproof.verdict import Failure

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class _Room(Space):
    """Plain coordinates, each with bounds of its own."""

    low: Vector = field(default_factory=lambda: np.empty(0))
    high: Vector = field(default_factory=lambda: np.empty(0))

    def lows(self) -> Vector:
        """Lowest value of each coordinate."""
        return self.low.copy()

    def highs(self) -> Vector:
        """Highest value of each coordinate."""
        return self.high.copy()


class Chart:
    """Coordinates of the set that a space's leaves declare, around one point.

    ``space`` and ``point`` are theirs; ``words`` has (path, set in words) of each leaf
    whose tangent space is not everything.
    """

    def __init__(self, domain: Space, x: Vector) -> None:
        """``x`` lies in the set; see ``sets.misfit``."""
        self.domain = domain
        self.x = x
        self.sets = [set_of(leaf, x[leaf.slice]) for leaf in domain]
        parts = zip(domain, self.sets, strict=True)
        leaves = [
            leaf if part.plain else Leaf(leaf.path, (part.size,), leaf.precision)
            for leaf, part in parts
        ]
        placed = Space.of(leaves)
        self.point: Vector = np.concatenate([p.point for p in self.sets])
        self.space = _Room(
            placed.leaves,
            np.concatenate([p.low for p in self.sets]),
            np.concatenate([p.high for p in self.sets]),
        )
        self.words = tuple(
            (leaf.path, part.words)
            for leaf, part in zip(domain, self.sets, strict=True)
            if part.words
        )

    def out(self, s: Vector) -> Vector:
        """x(s), representable, in the set up to rounding."""
        return self.domain.snap(self._each("out", s, back=False))

    def inside(self, x: Vector) -> bool:
        """Whether ``x`` keeps the inequalities of the set."""
        return all(
            part.inside(x[leaf.slice])
            for leaf, part in zip(self.domain, self.sets, strict=True)
        )

    def gather(self, v: Array) -> Array:
        """V C for rows of length n: a gradient by x becomes one by s."""
        return self._each("gather", v, back=True)

    def push(self, u: Array) -> Array:
        """C u: a step in s becomes one in x."""
        return self._each("push", u, back=False)

    def pull(self, u: Vector) -> Vector:
        """The step in s that makes the tangent u."""
        return self._each("pull", u, back=True)

    def spread(self, m: Array) -> Array:
        """M Dᵀ for rows of length k: a gradient by s becomes one by x, projected."""
        return self._each("spread", m, back=False)

    def cover(self, b: Array) -> Array:
        """B |D|ᵀ, or a little more: errors by s become errors by x."""
        return self._each("cover", b, back=False)

    def marks(self, code: Array) -> Array:
        """The largest code among the coordinates that an entry is made of."""
        return self._each("marks", code, back=False).astype(np.int8)

    def slopes(self, m: Array) -> Array:
        """``spread`` where an entry is one coordinate; NaN where it is several."""
        return self._each("slopes", m, back=False)

    def project(self, v: Array) -> Array:
        """P v, on the tangent space."""
        return self.spread(self.gather(v))

    def _each(self, name: str, v: Array, *, back: bool) -> Array:
        source = self.domain if back else self.space
        parts = [
            getattr(part, name)(v[..., leaf.slice])
            for leaf, part in zip(source, self.sets, strict=True)
        ]
        return np.concatenate(parts, axis=-1)


def chart(domain: Space, x: Vector) -> Chart | None:
    """The chart at ``x``; None where no leaf declares a set."""
    if not any(leaf.pattern for leaf in domain) or not np.isfinite(x).all():
        return None
    return Chart(domain, x)


def settled(domain: Space, start: Vector, x: Vector) -> Vector:
    """A point of the set near ``x``, on the way to it from ``start`` (in the set)."""
    if not any(leaf.pattern for leaf in domain) or not np.isfinite(x).all():
        return x
    out = x.copy()
    for leaf in domain:
        if leaf.pattern:
            part: Set = set_of(leaf, start[leaf.slice])
            out[leaf.slice] = part.settled(x[leaf.slice])
    return domain.snap(out)


class Charted(Primal):
    """A function on a set, by the coordinates of a chart."""

    def __init__(self, inner: Primal, at: Chart) -> None:
        """``at`` is a chart of the function's domain."""
        self.inner = inner
        self.chart = at
        self.domain, self.point = at.space, at.point
        self.codomain = inner.codomain

    def value(self, x: Vector) -> Reply:
        """f(x(s)); a failure where s leaves the set."""
        there = self.chart.out(x)
        if not self.chart.inside(there):
            return Reply(None, Failure("OutOfSet", "outside the set of the input"))
        return self.inner.value(there)

    def rounded(self, x: Vector, seed: int, *, fair: bool = True) -> Reply | None:
        """f(x(s)), what the function rounds on the way rounded up or down."""
        there = self.chart.out(x)
        if not self.chart.inside(there):
            return None
        return self.inner.rounded(there, seed, fair=fair)

    def lifted(self) -> Primal | None:
        """The same in float64, where the function has it."""
        wide = self.inner.lifted()
        if wide is None:
            return None
        return Charted(wide, Chart(wide.domain, self.chart.x))
