"""The pass path for what is large: few calls, few passes, and everything agrees.

Whatever looks odd ends it without an answer: then the rule is asked again the long way,
which alone may accuse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradproof.checks import summing
from gradproof.checks.answers import Answers
from gradproof.checks.arrays import sample
from gradproof.checks.halves import lanes
from gradproof.checks.lanes import Lanes
from gradproof.checks.moving import Moving
from gradproof.checks.rounding import HALF
from gradproof.checks.slabs import slabs
from gradproof.checks.summing import Along, Odd, Probes, Worth
from gradproof.checks.worth import hides
from gradproof.numdiff import pooled
from gradproof.rule import Bulk, BulkRule, Watched
from gradproof.space import unit
from gradproof.verdict import Effect, Form, Limit

Tell = Callable[[float], None]

ALONE = 4  # leaves that are moved alone, the largest; the others together
FINE = 1e-4  # a uniform error that two steps must show, or four are taken
SHARP = 1e-2  # a larger uniform error must have been visible
ODD = 1e-3  # of the entries may have no sharp derivative, at kinks


def agreed(question: Question) -> bool:
    """Form, history, linearity, structure and probes; False where anything is odd."""
    try:
        question.ask()
    except Odd:
        return False
    return True


def vague(bulk: Bulk) -> bool:
    """Whether a wrong gradient could hide in the values of an input."""
    return hides(
        [bulk.host(bulk.cast(sample(x), "float64")).reshape(-1) for x in bulk.point]
    )


def elsewhere(bulk: BulkRule, rng: np.random.Generator) -> list[Any]:
    """Other values of about the same size, as arrays."""
    q = Question(bulk, rng)
    return [
        x + 2.0 * q.tangent(k) * abs(y)
        for k, (x, y) in enumerate(zip(bulk.point, q.drawn(bulk.domain), strict=True))
    ]


class Question(Answers, Moving):
    """One rule at one point, and what has been measured of it.

    ``seen`` and ``probes`` are None as long as they are not known; ``limits`` are there
    once everything agreed.
    """

    def __init__(
        self, rule: BulkRule, rng: np.random.Generator, tell: Tell | None = None
    ) -> None:
        """Begin with nothing known; ``tell`` hears which share of all is done."""
        super().__init__(rule, rng)
        self.tell = tell or (lambda _: None)
        self.worth = Worth()
        self.narrow: list[Limit] = []
        self.limits: tuple[Limit, ...] = ()
        self.seen: Watched | None = None
        self.probes: Probes | None = None

    @property
    def form(self) -> Form:
        """What the vjp at the point looked like."""
        return (self.seen and self.seen.form) or Form()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What it disturbed."""
        return self.seen.effects if self.seen else ()

    def ask(self) -> None:
        """Everything, in order; raises ``Odd``."""
        self.finite(self.rule.point)
        self.ybar = self.drawn(self.codomain)
        self.seen = seen = self.rule.watched(self.ybar)
        self.vjps += 1
        self.evaluations += 1
        if seen.outs is None or seen.grads is None or seen.form is None:
            raise Odd
        self.finite(seen.outs)
        self.start, self.xbar = seen.outs, seen.grads
        self.tops = self.finite(self.xbar)
        self.tell(0.1)
        self.linear()
        self.tell(0.25)
        self.rounded()
        self.tell(0.35)
        if self.rule.forget():
            raise Odd
        probes = Probes(
            self.rule, (self.ybar, self.other), (self.xbar, self.second), self.spread,
            [a.usual for a in self.usual], [a.share for a in self.usual], self.tops,
            self.work,
        )  # fmt: skip
        wide = self._widened(probes) if self.domain.unit > HALF else None
        if wide is None:
            self.choose()
        self.probes = probes = wide or probes
        groups = self._groups()
        for i, group in enumerate(groups):
            self.tell(0.45 + 0.5 * i / len(groups))
            self._along(group, probes)
        again = self.evaluated(self.rule, self.placed(self.rule, {}))
        if not all(map(self.rule.same, again, self.start)):
            raise Odd
        self.limits = self._limits() + tuple(self.narrow)

    def let_go(self) -> None:
        """Forget all arrays but those of the first question."""
        self.probes = None
        self.rooms.clear()
        self.other, self.second, self.base = [], [], []

    def _widened(self, native: Probes) -> Probes | None:
        """The answers of the same rule in float32, which the native ones are near to.

        In half precision a rule is its own reference: what is proved of it in float32
        holds of it to its rounding. None where it is another function there.
        """
        wide = self.rule.widened("float32")
        exact = None if wide is None else wide.exact()
        if wide is None or exact is None or wide.record() is None:
            return None
        value = exact.value(self.placed(exact, {}))
        if value is None or not self.alike(value):
            return None
        xbars = [
            wide.pull([self.cast(y, "float32") for y in ys]) for ys in native.ybars
        ]
        wide.forget()
        if xbars[0] is None or xbars[1] is None:
            return None
        tops, _ = (self.finite(g) for g in (xbars[0], xbars[1]))
        self.differenced(exact, value)
        for k, leaf in enumerate(self.domain):
            limit = self._rounded(native, k, xbars[0][k], tops[k])
            self.narrow.append(Limit(f"in {leaf.precision}", limit))
        self.narrow = [max(self.narrow, key=lambda a: a.value)]
        least = 4.0 * unit("float32")
        return Probes(
            wide, native.ybars, (xbars[0], xbars[1]), [],
            [top * least for top in tops], [least] * len(tops), tops, "float32",
        )  # fmt: skip

    def _rounded(self, native: Probes, k: int, exact: Any, top: float) -> float:
        """The least relative error that the rounding of native answers leaves room for."""
        least = np.inf
        for at in slabs(self.domain.leaves[k].view_shape):
            size = abs(self.cast(exact[at], self.work))
            room = native.own(k, at, size, alone=False)
            gap = self.cast(native.xbars[0][k][at], self.work) - exact[at]
            if not bool((abs(gap) <= room).all()):
                raise Odd
            seen = self.xp.where(size >= 1e-3 * top, (room + abs(gap)) / size, np.inf)
            least = min(least, float(seen.min()))
        return least

    def _groups(self) -> list[list[int]]:
        leaves = self.domain.leaves
        order = sorted(range(len(leaves)), key=lambda k: -leaves[k].size)
        groups = [[k] for k in order[:ALONE]]
        return [*groups, order[ALONE:]] if order[ALONE:] else groups

    def _along(self, group: list[int], probes: Probes) -> None:
        """One direction over the leaves of ``group``, by cells where it is one leaf."""
        us = {k: self.tangent(k) for k in group}
        first, lane = group[0], Lanes(self.domain.leaves[group[0]], self.codomain)
        if len(group) == 1:
            self.evaluations += 1
            leaf = self.domain.leaves[first]
            room = self.room("in", first, leaf, leaf.precision)
            lane = lanes(self.rule, first, us[first], self.start, room, self.rng)
        for step in (self.step, replace(self.step, near=False)):
            worth = Worth()
            try:
                self._summed(step, us, lane, probes, worth)
            except Odd:
                if not step.near:
                    raise
                continue
            if not step.near or min(worth.uniform) <= FINE:
                break
        worth.uniform = [min(worth.uniform)]
        self.worth.add(worth)

    def _summed(
        self,
        step: pooled.Step,
        us: dict[int, Any],
        lane: Lanes,
        probes: Probes,
        worth: Worth,
    ) -> None:
        """What values at these steps say of the answers."""
        moved = [self.moved(us, t) for t in step.steps]
        self.heard(us, moved)
        noisy, usual = self.typical(step, moved)
        along = Along(
            self.source, step, self.base, moved, us, self.sizes, noisy, self.loose
        )
        single = lane.width == 1 and len(us) == 1
        if single and all(a.shape == lane.leaf.shape for a in self.codomain):
            summing.each(probes, along, next(iter(us)), usual, worth)
        else:
            summing.by_cells(probes, along, lane, worth)

    def _limits(self) -> tuple[Limit, ...]:
        w = self.worth
        if w.left_out > ODD * max(1, w.entries):
            raise Odd
        # What is uniform may be so in one input alone: the worst of them counts.
        found = [("uniform", max(w.uniform, default=np.inf))]
        found += [(name, max(a)) for name, a in (("one row", w.row), ("one entry", w.entry)) if a]  # fmt: skip
        if not (found[0][1] <= SHARP and all(np.isfinite(a) for _, a in found)):
            raise Odd
        return tuple(Limit(name, value) for name, value in found)
