"""A rule whose inputs lie in a set, asked by the coordinates of a chart of that set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.checks.gradient import Compared
from gradproof.oracles import Chart, Charted
from gradproof.rule import PLAIN, Reply, Rule, Way, Witness
from gradproof.space import Vector
from gradproof.verdict import Block, Code, Direction, Estimate, Probe

NOTE = "{path} was moved along {words} only, and its gradient compared on the tangent space"
COMPARED = "on the tangent space of {words} ({path})"


class ChartedRule(Rule):
    """f(x(s)) and the gradient by s that the rule implies, Cᵀ x̄."""

    def __init__(self, rule: Rule, at: Chart) -> None:
        """``at`` is a chart of the rule's domain."""
        self.rule, self.chart = rule, at
        self.primal = Charted(rule.primal, at)
        self.source = rule.source

    def vjp(self, x: Vector, ybar: Vector, way: Way = PLAIN) -> Reply:
        """The gradient by the chart's coordinates."""
        return self._gathered(self.rule.vjp(self.chart.out(x), ybar, way))

    def rounded(self, x: Vector, ybar: Vector, seed: int) -> Reply | None:
        """The same, what the rule rounds on the way rounded up or down."""
        reply = self.rule.rounded(self.chart.out(x), ybar, seed)
        return None if reply is None else self._gathered(reply)

    def _gathered(self, reply: Reply) -> Reply:
        if reply.value is None:
            return reply
        return replace(reply, value=self.chart.gather(reply.value))

    def witnesses(self) -> tuple[Witness, ...]:
        """Those of the rule, by the same coordinates."""
        return tuple(self._along(w) for w in self.rule.witnesses())

    def _along(self, w: Witness) -> Witness:
        def vjp(x: Vector, ybar: Vector) -> Reply:
            return self._gathered(w.vjp(self.chart.out(x), ybar))

        return replace(w, vjp=vjp)


def back(at: Chart, found: Compared) -> Compared:
    """What was found by coordinates, by the entries of the inputs.

    Gradients become their projections on the tangent space, on both sides.
    """
    return replace(
        found,
        point=at.x,
        block=None if found.block is None else back_block(at, found.block),
        probes=tuple(_probe(at, p) for p in found.probes),
        directions=tuple(_direction(at, d) for d in found.directions),
        located=(),  # by coordinates, which are not entries
    )


def back_block(at: Chart, b: Block) -> Block:
    """A block by coordinates, by the entries of the inputs."""
    if len(b.cols) < at.space.size:
        b = _padded(at, b)
    return replace(
        b,
        cols=np.arange(at.domain.size),
        implied=at.spread(b.implied),
        value=at.spread(b.value),
        bar=at.cover(b.bar),
        bound=at.cover(b.bound),
        code=at.marks(b.code),
        own=at.cover(b.own),
        left=at.slopes(b.left),
        right=at.slopes(b.right),
    )


def _padded(at: Chart, b: Block) -> Block:
    """Some columns among all; those that were not asked are marked so."""
    shape = (len(b.rows), at.space.size)

    def wide(part: np.ndarray, fill: float) -> np.ndarray:
        out = np.full(shape, fill, dtype=part.dtype)
        out[:, b.cols] = part
        return out

    return replace(
        b,
        cols=np.arange(at.space.size),
        code=wide(b.code, Code.UNMEASURED),
        implied=wide(b.implied, np.nan),
        value=wide(b.value, np.nan),
        bar=wide(b.bar, np.nan),
        bound=wide(b.bound, np.nan),
        own=wide(b.own, np.nan),
        left=wide(b.left, np.nan),
        right=wide(b.right, np.nan),
    )


def _probe(at: Chart, p: Probe) -> Probe:
    e = p.expected
    expected: Estimate = replace(
        e,
        value=at.spread(e.value),
        bar=at.cover(e.bar),
        bound=at.cover(e.bound),
        noise=at.cover(e.noise),
        code=at.marks(e.code),
        left=None if e.left is None else at.slopes(e.left),
        right=None if e.right is None else at.slopes(e.right),
    )
    return replace(
        p, point=at.x, got=at.spread(p.got), expected=expected, own=at.cover(p.own)
    )


def _direction(at: Chart, d: Direction) -> Direction:
    return replace(d, tangent=at.push(d.tangent))


def notes(at: Chart | None) -> tuple[str, ...]:
    """What was held still, a sentence for each input."""
    if at is None:
        return ()
    return tuple(NOTE.format(path=path, words=words) for path, words in at.words)


def compared(at: Chart | None) -> str:
    """What to add to the words that say what was compared."""
    if at is None or not at.words:
        return ""
    return " " + " and ".join(
        COMPARED.format(path=path, words=words) for path, words in at.words
    )
