"""The evidence as cards see it: panels of what the rule gave beside what is true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradproof.diagnosis.card import Bools
from gradproof.space import Leaf, Mask, Matrix, Vector
from gradproof.verdict import Block as Measured
from gradproof.verdict import Code, Evidence, Linearity, Probe

# Key of the request for the whole Jacobian, where only a part was measured.
WHOLE = "whole"
# Key of the outputs in the precision in which the derivative was measured.
EXACT = "outputs"

Coordinates = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Panel:
    """x̄ for some cotangents (rows) at some input coordinates (columns), with the truth.

    A block of the Jacobian is a panel whose cotangents are unit vectors: then ``rows``
    holds their coordinates. A probe is a panel of random cotangents; ``rows`` is None.
    All matrices are of shape (cotangents, columns); ``want`` is 0 where not ``ok``.
    """

    cols: Coordinates
    rows: Coordinates | None
    cotangents: Matrix | None
    got: Matrix
    want: Matrix
    bound: Matrix
    own: Matrix
    ok: Bools
    bad: Bools  # entries that are wrong for sure
    point: Vector

    @cached_property
    def slack(self) -> Matrix:
        """What the oracle and the rule's rounding together excuse."""
        return self.bound + self.own

    def part(self, rows: Mask | None, cols: Mask | None) -> Panel:
        """The same, on fewer cotangents and columns (masks)."""
        r, c = _chosen(rows), _chosen(cols)
        return Panel(
            self.cols[c],
            None if self.rows is None else self.rows[r],
            None if self.cotangents is None else self.cotangents[r],
            self.got[r][:, c],
            self.want[r][:, c],
            self.bound[r][:, c],
            self.own[r][:, c],
            self.ok[r][:, c],
            self.bad[r][:, c],
            self.point,
        )

    def within(self, leaf: Leaf) -> Panel:
        """The columns that belong to an input leaf."""
        return self.part(None, _inside(self.cols, leaf))

    def below(self, leaf: Leaf) -> Panel:
        """The rows that belong to an output leaf (blocks only)."""
        assert self.rows is not None
        return self.part(_inside(self.rows, leaf), None)


def _inside(coordinates: Coordinates, leaf: Leaf) -> Mask:
    out: Mask = (coordinates >= leaf.start) & (coordinates < leaf.start + leaf.size)
    return out


def _chosen(mask: Mask | None) -> Mask | slice:
    """A mask as an index; a slice where it leaves out nothing, for that copies nothing."""
    return slice(None) if mask is None or mask.all() else mask


def of_block(block: Measured, point: Vector) -> Panel:
    """A block of the Jacobian as a panel.

    At a kink the one-sided slope that lies nearer to what the rule gave is the truth
    that it is held against, since either would have been a fair answer.
    """
    got = np.asarray(block.implied, float)
    kink = (block.code == Code.KINK) & block.wrong
    with np.errstate(invalid="ignore"):
        near = np.abs(got - block.left) <= np.abs(got - block.right)
    want = np.where(kink, np.where(near, block.left, block.right), block.value)
    wide = np.abs(block.right - block.left)
    ok = ((block.code == Code.OK) & np.isfinite(block.value)) | kink
    return Panel(
        np.asarray(block.cols),
        np.asarray(block.rows),
        None,
        got,
        np.where(ok, want, 0.0),
        np.where(kink, 0.05 * wide, np.where(ok, block.bound, 0.0)),
        np.asarray(block.own, float),
        ok,
        np.asarray(block.wrong),
        point,
    )


def _of_probes(evidence: Evidence) -> Iterator[Panel]:
    """One panel for each point at which there are probes."""
    groups: dict[bytes, list[int]] = {}
    for k, probe in enumerate(evidence.probes):
        groups.setdefault(np.asarray(probe.point).tobytes(), []).append(k)
    for members in groups.values():
        yield of_probes(tuple(evidence.probes[k] for k in members))


def of_probes(probes: tuple[Probe, ...]) -> Panel:
    """Probes at one point as a panel."""
    codes = np.array([p.expected.code for p in probes])
    values = np.array([p.expected.value for p in probes], float)
    ok = (codes == Code.OK) & np.isfinite(values)
    return Panel(
        np.arange(values.shape[1]),
        None,
        np.array([p.cotangent for p in probes], float),
        np.array([p.got for p in probes], float),
        np.where(ok, values, 0.0),
        np.where(ok, np.array([p.expected.bound for p in probes]), 0.0),
        np.array([p.own for p in probes], float),
        ok,
        np.array([p.wrong for p in probes]),
        probes[0].point,
    )


@dataclass(frozen=True, eq=False)
class Look:
    """Evidence, and the part of it that is to be explained.

    ``leaves`` are the input leaves in scope and ``outputs`` the output leaves; None
    stands for all.
    """

    evidence: Evidence
    panels: tuple[Panel, ...]
    leaves: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    all_panels: tuple[Panel, ...]
    layer: str = ""  # the layer that is being asked

    @classmethod
    def at(cls, evidence: Evidence) -> Look:
        """A look at all of it."""
        panels: list[Panel] = []
        block = evidence.answer(WHOLE)
        if not isinstance(block, Measured):
            block = evidence.block
        if block is not None and block.implied.size:
            panels.append(of_block(block, evidence.point))
        panels.extend(_of_probes(evidence))
        every = tuple(panels)
        return cls(
            evidence, every, tuple(evidence.domain), tuple(evidence.codomain), every
        )

    def on(self, leaves: tuple[Leaf, ...], outputs: tuple[Leaf, ...] = ()) -> Look:
        """The look at these input leaves only, and at these outputs only.

        With ``outputs`` given, probes are left out: they mix all outputs.
        """
        panels = []
        for panel in self.all_panels:
            if outputs and panel.rows is None:
                continue
            cols = np.zeros(len(panel.cols), bool)
            for leaf in leaves:
                cols |= _inside(panel.cols, leaf)
            rows: Mask | None = None
            if outputs:
                assert panel.rows is not None
                rows = np.zeros(len(panel.rows), bool)
                for leaf in outputs:
                    rows |= _inside(panel.rows, leaf)
            if cols.any() and (rows is None or rows.any()):
                panels.append(panel.part(rows, cols))
        return replace(
            self,
            panels=tuple(panels),
            leaves=leaves,
            outputs=outputs or tuple(self.evidence.codomain),
        )

    @property
    def name(self) -> str:
        """How a headline calls the rule: ``Name.backward``."""
        source = self.evidence.source
        name = source.name or self.evidence.name or "the function"
        rule = source.backward or "backward"
        if "." in rule or source.kind == "pair":
            return f"`{rule}`"
        return f"`{name}.{rule}`"

    @property
    def short(self) -> str:
        """The operation's own name."""
        return self.evidence.source.name or self.evidence.name or "the function"

    @cached_property
    def block(self) -> Panel | None:
        """The panel of unit cotangents, restricted to the scope."""
        for panel in self.panels:
            if panel.rows is not None:
                return panel
        return None

    @property
    def linearity(self) -> Linearity | None:
        """What vjp answered to related cotangents."""
        return self.evidence.linearity

    @cached_property
    def wrong_leaves(self) -> tuple[Leaf, ...]:
        """Input leaves with an entry that is wrong for sure."""
        return tuple(
            leaf
            for leaf in self.leaves
            if any(p.within(leaf).bad.any() for p in self.panels)
        )

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Entries that are wrong, and entries that were measured."""
        wrong = sum(int(p.bad.sum()) for p in self.panels)
        return wrong, sum(int(p.ok.sum()) for p in self.panels)

    def pair(self, into: Leaf, out: Leaf) -> Panel | None:
        """The block of one output leaf against one input leaf, where it was measured."""
        if self.block is None:
            return None
        panel = self.block.within(into).below(out)
        return panel if panel.got.size else None

    def pairs(self) -> Iterator[tuple[Leaf, Leaf, Panel]]:
        """All measured (input leaf, output leaf, block) in scope."""
        for into in self.leaves:
            for out in self.outputs:
                panel = self.pair(into, out)
                if panel is not None:
                    yield into, out, panel

    @cached_property
    def whole(self) -> bool:
        """Whether every entry of the Jacobian in scope was asked."""
        if self.block is None or self.block.rows is None:
            return False
        rows = sum(leaf.size for leaf in self.outputs)
        cols = sum(leaf.size for leaf in self.leaves)
        return self.block.got.shape == (rows, cols)

    def value_of(self, leaf: Leaf) -> Vector:
        """The values of an input leaf at the point, flat."""
        out: Vector = self.evidence.point[leaf.slice]
        return out

    def output_of(self, leaf: Leaf) -> Vector:
        """The values of an output leaf at the point, flat, as exactly as they are known."""
        exact = self.evidence.answer(EXACT)
        known = exact if isinstance(exact, np.ndarray) else self.evidence.value
        out: Vector = known[leaf.slice]
        return out
