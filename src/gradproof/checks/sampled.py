"""The same comparison where the whole Jacobian is too large: directions and structure.

Structure only chooses probes: every leaf is also compared along dense random directions,
so that no entry is excused by a guess about which output depends on which input.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from gradproof.checks import cells as cells_
from gradproof.checks.gradient import Compared, off
from gradproof.checks.lanes import lanes
from gradproof.checks.naming import named
from gradproof.checks.probing import Slope, directions, pull, slope
from gradproof.checks.rounding import own_rounding, same_answer_slack
from gradproof.oracles import Differences
from gradproof.rule import Rule
from gradproof.space import Leaf, Vector
from gradproof.verdict import Code, Direction, Limit, Probe

DENSE = 2  # directions over everything
ALONE = 8  # leaves that get a direction of their own
SUSPICION = 5.0  # times as long may be spent on single columns once something is wrong


def sampled(
    rule: Rule,
    oracle: Differences,
    x: Vector,
    ybars: list[Vector],
    rng: np.random.Generator,
    seconds: float = 2.0,
) -> Compared:
    """Directions of the Jacobian against vjps; entries where structure allows.

    A leaf whose cells each move only the outputs of that cell is compared cell by cell
    from one direction, and entry by entry from as many as a cell has coordinates, where
    that takes no longer than ``seconds``. A witness (autodiff of the body, a reference)
    that agrees with every measured direction names the entries; what is accused is
    measured column by column before anything is called wrong.
    """
    gots = [pull(rule, x, ybar) for ybar in ybars]
    owns = [own_rounding(rule, x, y, g, rng) for y, g in zip(ybars, gots, strict=True)]
    nothing = cells_.blank(rule.primal.domain.size, oracle.method)
    probes = [
        Probe(x, y, g, nothing, own)
        for y, g, own in zip(ybars, gots, owns, strict=True)
    ]
    seen = _Seen(rule, oracle, rng, probes)
    seen.look()
    seen.entries(seconds)
    found = [d for s in seen.every for d in directions(rule, oracle, s, seen.probes)]
    if any(off(d) for d in found):
        found = seen.again()
    found += seen.rows(seconds)
    probes = _witnessed(rule, x, seen.probes, found)
    out = Compared(
        point=x,
        probes=tuple(probes),
        directions=tuple(found),
        elementwise=tuple(a.leaf.path for a in seen.lanes if a.width == 1),
        vjps=len(ybars) * 6,
        evaluations=oracle.evaluations,
        method=oracle.method,
        whole=False,
        limits=seen.limits(),
    )
    if not out.wrong:
        return out
    return named(rule, oracle, out, seen.lanes, seen.every[-1].tangent, rng)


@dataclass(eq=False)
class _Seen:
    """What has been measured so far of one rule at one point."""

    rule: Rule
    oracle: Differences
    rng: np.random.Generator
    probes: list[Probe]

    def look(self) -> None:
        """Structure, and dense directions: over everything, and over each leaf alone."""
        leaves = list(self.rule.primal.domain)
        self.lanes = [lanes(self.oracle, leaf, self.rng) for leaf in leaves]
        self.dense = [self._slope(self._even(leaves))]
        self.dense += [self._slope(self._dense()) for _ in range(DENSE - 1)]
        self.alone: dict[int, Slope] = {}
        if len(leaves) == 1:
            self.alone[0] = self.dense[0]
        for k, leaf in enumerate(leaves[:ALONE] if len(leaves) > 1 else []):
            self.alone[k] = self._slope(self._even([leaf]))
        self.left = set(range(len(leaves)))  # leaves whose entries are not measured

    @property
    def every(self) -> list[Slope]:
        """All directions, the dense ones first."""
        return self.dense + [s for s in self.alone.values() if s is not self.dense[0]]

    def _slope(self, u: Vector) -> Slope:
        return slope(self.oracle, u, closer=any(a.width == 1 for a in self.lanes))

    def _dense(self) -> Vector:
        """Entries ±[0.5, 1.5] on a 2⁻⁶ grid, in units of each coordinate's scale."""
        size = self.rng.integers(32, 97, self.rule.primal.domain.size) / 64.0
        return self._signed(size) * self.oracle.scales()

    def _even(self, leaves: list[Leaf]) -> Vector:
        """± each coordinate's scale on some leaves: the best step for every entry."""
        u = self._signed(self.oracle.scales())
        if len(leaves) < len(self.rule.primal.domain):
            for leaf in self.rule.primal.domain:
                if leaf not in leaves:
                    u[leaf.slice] = 0.0
        return u

    def _signed(self, v: Vector) -> Vector:
        # What is no number cannot be moved.
        v = np.where(np.isfinite(self.oracle.point), v, 0.0)
        return np.where(self.rng.random(len(v)) < 0.5, -v, v)

    def entries(self, seconds: float) -> None:
        """Every entry of leaves with narrow cells: one direction for each column."""
        end = time.perf_counter() + seconds
        for k in sorted(self.left):
            part = self.lanes[k]
            if part.width > cells_.COLUMNS or part.count < 2:
                continue
            first = self.alone.get(k) if part.width == 1 else None
            filled = cells_.column_by_column(self.oracle, part, self.probes, end, first)
            if filled is not None:
                self.probes = filled
                self.left.discard(k)

    def again(self) -> list[Direction]:
        """The directions once more, thoroughly, a fresh one among them."""
        fresh = self._slope(self._dense())
        again = [fresh, *self.every[DENSE:]]
        return [
            d
            for s in again
            for d in directions(self.rule, self.oracle, s, self.probes, "thorough")
        ]

    def rows(self, seconds: float) -> list[Direction]:
        """Cells that disagree, each asked along a direction within it, thoroughly."""
        out: list[Direction] = []
        for k in sorted(self.left & self.alone.keys()):
            if self.lanes[k].count < 2:
                continue
            for probe in self.probes:
                bad = cells_.accused(
                    self.rule, self.oracle, self.lanes[k], self.alone[k], probe
                )
                for s in bad:
                    out += directions(self.rule, self.oracle, s, [probe], "thorough")
                if bad:
                    break
        wrong = [d for d in out if off(d)]
        if wrong:
            self.entries(SUSPICION * seconds)
        return wrong

    def limits(self) -> tuple[Limit, ...]:
        """By row and by entry, of the leaf that is known least well."""
        worst: dict[str, float] = {}
        for k in sorted(self.left):
            if self.lanes[k].count < 2 or k not in self.alone:
                return ()
            one, s = self.lanes[k], self.alone[k]
            found = [cells_.cells(self.rule, one, s, p) for p in self.probes]
            for limit in cells_.limits(found):
                known = worst.get(limit.structure, 0.0)
                worst[limit.structure] = max(known, limit.value)
        return tuple(Limit(name, value) for name, value in worst.items())


def _witnessed(
    rule: Rule, x: Vector, probes: list[Probe], found: list[Direction]
) -> list[Probe]:
    """Probes whose unmeasured entries are filled by a witness that all directions bear out."""
    if all((p.expected.code != Code.UNMEASURED).all() for p in probes):
        return probes
    for witness in rule.witnesses():
        answers = [witness.vjp(x, p.cotangent).value for p in probes]
        if any(a is None or not np.isfinite(a).all() for a in answers):
            continue
        trusted = all(
            abs(float(a @ d.tangent) - d.expected) <= d.bound
            for a, p in zip(answers, probes, strict=True)
            for d in found
            if d.cotangent is p.cotangent and a is not None
        )
        if trusted:
            return [
                _fill(rule, p, a, witness.name)
                for p, a in zip(probes, answers, strict=True)
                if a is not None
            ]
    return probes


def _fill(rule: Rule, probe: Probe, answer: Vector, name: str) -> Probe:
    e = probe.expected
    open_ = e.code == Code.UNMEASURED
    slack = same_answer_slack(rule.primal.domain, answer, probe.own)
    filled = replace(
        e,
        value=np.where(open_, answer, e.value),
        bar=np.where(open_, slack / 4, e.bar),
        bound=np.where(open_, slack, e.bound),
        code=np.where(open_, Code.OK, e.code).astype(np.int8),
        method=f"{e.method}; entries named by {name}",
    )
    return replace(probe, expected=filled)
