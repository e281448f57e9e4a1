"""Many ways asked in one go, where a problem is too large to ask each by itself.

A forward serves several backwards, and what one way must call besides is what another
asks for. Here nothing is told apart: whatever differs, raises or is disturbed leaves its
ways unsettled, and they are asked one by one, as on small problems.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradproof.adapters import torch_layouts as layouts
from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_autocast import NotUnderAutocast, under_autocast
from gradproof.adapters.torch_covering import combined, covering, has_stride_zero
from gradproof.adapters.torch_engines import (
    AUTOCAST,
    BACKWARD,
    BATCHED_GRAD,
    CHECKPOINT,
    CREATE_GRAPH,
    FUNC,
    Grads,
    elsewhere,
    through,
)
from gradproof.adapters.torch_handed import Graph, Odd, filled, finite, near
from gradproof.adapters.torch_level import Level
from gradproof.adapters.torch_presentation import (
    AFTER_FORWARD,
    INTERLEAVED,
    KEPT,
    RETAINED,
    TWICE,
    Presentation,
    TorchWay,
)
from gradproof.adapters.torch_program import OutputChanged, output_failure
from gradproof.patience import AT_LEAST, TIMES, TooLong, patience
from gradproof.rule import UNITS, Reply, Together

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule

_CALLS = (TWICE, RETAINED, INTERLEAVED, AFTER_FORWARD, KEPT)
# The other cotangent of a batch is this multiple of the one whose answer is known.
_LANE = -2.0


def together(
    rule: TorchRule,
    xs: Sequence[Any],
    ybars: Sequence[Any],
    xbars: Sequence[Any],
    shares: Sequence[float],
) -> Together:
    """The ways of ``rule`` that agree, asked with few calls.

    Args:
        rule: whose ways are asked.
        xs: the point, an array of its view shape for each leaf.
        ybars: the cotangents, one for each output.
        xbars: the plain answer to them.
        shares: what an answer may be off, relative to the largest of its leaf.
    """
    if any(spec.sparse is not None for spec in rule.program.specs):
        return Together()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Asking(rule, xs, ybars, xbars, shares).asked()


class _Row:
    """Layouts that are asked together, for each input and each cotangent."""

    def __init__(self, group: Sequence[TorchWay], n: int, m: int) -> None:
        how = combined([Presentation(), *(way.presentation for way in group)])
        self.names = {way.name for way in group}
        self.inputs = layouts.layouts_of(how.inputs, n)
        self.cotangents = layouts.layouts_of(how.cotangent, m)


class _Asking(Level):
    """All that is asked of one rule at one point."""

    def __init__(
        self,
        rule: TorchRule,
        xs: Sequence[Any],
        ybars: Sequence[Any],
        xbars: Sequence[Any],
        shares: Sequence[float],
    ) -> None:
        super().__init__(rule, xs, ybars, xbars, shares)
        self.rows: list[_Row] = []
        self.edits = [w for w in self.ways if w.factor == "edits"]
        self.agreed: set[str] = set()
        self.replies: dict[str, Reply] = {}

    def asked(self) -> Together:
        """What could be settled."""
        if not all(isfinite(top) for top in self.tops):
            return Together()
        with self.program.state, torch.enable_grad():
            try:
                self.base = self.packed(self.xs)
                self.still = self.packed(self.ys)
            except Exception:  # whoever asks one by one will hear of it
                return Together()
            kept, self.shown = self.shown, []
            steps = (
                self._core,
                self.expanded,
                self.aliased,
                self._needs,
                self._outputs,
                self._autocast,
                self._func,
            )
            for step in steps:
                try:
                    names = step()
                    self.undisturbed()
                except Exception:
                    # Whoever asks its ways one by one will hear of it.
                    if step == self._core:
                        return Together()
                else:
                    self.agreed |= names
            self.shown = kept
            try:
                self.undisturbed()
            except Odd:
                return Together()
        return Together(frozenset(self.agreed), self.replies)

    # The layouts, among calls of every order.

    def _core(self) -> set[str]:
        n, m = len(self.domain), len(self.codomain)
        plain = [
            w for w in self.ways if _layout(w) and not has_stride_zero(w.presentation)
        ]
        # Where some inputs are frozen, the cotangents' layouts are asked with the rest
        # packed.
        rows = [_Row(group, n, m) for group in covering(plain, packed=n == 1)]
        names = set[str]().union(*(row.names for row in rows))
        rows += [_Row((), n, m)] * (4 - len(rows))
        self.rows = rows
        self._trained(rows[0])
        self._among_others(rows[1], rows[2])
        self._recomputed(rows[3])
        for row in chain(rows[4:], [_Row((), n, m)] * len(self.domain)):
            if not row.names and not self.edits:
                break
            graph = self.forward(self.leaves(row.inputs, own=bool(self.edits)))
            self.same(self.pull(graph, self.cotangents(row.cotangents), retain=True))
            self._spoil(graph)
            self.undisturbed()
        names |= {w.name for w in self.ways if w.presentation.calls in _CALLS}
        names |= {w.name for w in self.ways if w.factor == "edits"}
        return names | self._by_engine(BACKWARD, CHECKPOINT)

    def _by_engine(self, *engines: str) -> set[str]:
        return {w.name for w in self.ways if w.presentation.engine in engines}

    def _trained(self, row: _Row) -> None:
        """Two steps of training: one tensor asked twice, its gradient added up."""
        leaves = self.leaves(row.inputs, own=bool(self.edits))
        self._step(leaves, self.cotangents(row.cotangents))
        self.same([t.grad for t in leaves])
        self.undisturbed()  # before memory that .grad may share is added to
        graph = self._step(leaves, self.still)
        self.same([t.grad for t in leaves], 2.0)
        self.shown += zip(leaves, self.xs, strict=True)
        self._spoil(graph)
        self.undisturbed()

    def _step(self, leaves: list[Tensor], cotangents: list[Tensor]) -> Graph:
        graph = self.forward(leaves)
        pairs = [
            (t, c)
            for t, c in zip(graph.outs, cotangents, strict=True)
            if t.requires_grad
        ]
        if not pairs:
            raise Odd
        torch.autograd.backward(
            [t for t, _ in pairs],
            [c for _, c in pairs],
            retain_graph=bool(self.edits),
            inputs=leaves,
        )
        return graph

    def _among_others(self, one: _Row, two: _Row) -> None:
        """Two graphs of ours, and one at other numbers between their calls."""
        first = self.forward(self.leaves(one.inputs, own=bool(self.edits)))
        away = self.elsewhere()
        kept = self.pull(first, self.cotangents(one.cotangents), retain=True)
        second = self.forward(self.leaves(two.inputs, own=len(self.edits) > 1))
        with torch.no_grad():
            self.forward([t.detach() for t in away.leaves])
        self.same(self.pull(second, self.cotangents(two.cotangents), retain=True))
        there = self.pull(away, self.evenly(), retain=True)
        self.same(kept)
        self.same(self.pull(first, self.still, retain=True))
        self.there = [[filled(g, t) for g, t in zip(there, away.leaves, strict=True)]]
        self._spoil(first)
        del first, kept, there
        for engine, asks in (
            (CREATE_GRAPH, self._create),
            (BATCHED_GRAD, self._batched),
        ):
            try:
                asks(second)
            except Exception:
                continue  # whoever asks by it alone will hear of it
            self.agreed |= self._by_engine(engine)
        self._spoil(second)
        self.undisturbed()

    def _create(self, graph: Graph) -> None:
        self.same(self.pull(graph, self.still, create=True))

    def _batched(self, graph: Graph) -> None:
        """Two cotangents at once; the answer to a multiple is that multiple."""
        both = [c.new_empty((2, *c.shape)) for c in self.still]
        for pair, c in zip(both, self.still, strict=True):
            torch.mul(c, _LANE, out=pair[0])
            pair[1].copy_(c)
        grads = self.pull(graph, both, retain=True, batched=True)
        self.same([None if g is None else g[0] for g in grads], _LANE)
        self.same([None if g is None else g[1] for g in grads])

    def _recomputed(self, row: _Row) -> None:
        leaves = self.leaves(row.inputs)
        cotangents = self.cotangents(row.cotangents)
        self.same(through(CHECKPOINT, self.program, leaves, cotangents))
        self.undisturbed()

    def _spoil(self, graph: Graph) -> None:
        """Write on inputs before the last backward: refused, or no difference."""
        if not self.edits:
            return
        numbers = self.edits.pop().presentation.engine.split(" ")[1]
        chosen = [(graph.leaves[int(i)], self.xs[int(i)]) for i in numbers.split(",")]
        edited = {id(t) for t, _ in chosen}
        self.whole([pair for pair in self.shown if id(pair[0]) in edited])
        self.shown = [(t, None if id(t) in edited else x) for t, x in self.shown]
        with torch.no_grad():
            for t, x in chosen:
                t.copy_(elsewhere([x], flip=True, scale=0.875)[0])
        try:
            grads = self.pull(graph, self.still)
        except Exception:
            return  # refused, as it ought to be
        self.same(grads)

    # What narrows the question, and who else asks it.

    def _needs(self) -> set[str]:
        names = set()
        packed = (layouts.CONTIGUOUS,) * len(self.still)
        spec = chain((row.cotangents for row in self.rows), repeat(packed))
        for way in self.ways:
            needs = way.presentation.needs
            if needs is not None:
                leaves = [
                    t.detach().requires_grad_(need)
                    for t, need in zip(self.base, needs, strict=True)
                ]
                cotangents = self.cotangents(next(spec))
                self.same(self.pull(self.forward(leaves), cotangents), which=needs)
                self.undisturbed()
                names.add(way.name)
        return names

    def _outputs(self) -> set[str]:
        """A cotangent that is left out is as good as zeros."""
        ways = [w for w in self.ways if w.presentation.outputs is not None]
        if not ways:
            return set()
        graph = self.forward(self.leaves([layouts.CONTIGUOUS] * len(self.xs)))
        for way in ways:
            pairs = list(zip(self.still, way.presentation.outputs or (), strict=True))
            zeros = [c if used else torch.zeros_like(c) for c, used in pairs]
            want = self.pull(graph, zeros, retain=True)
            got = self.pull(
                graph, [c if used else None for c, used in pairs], retain=True
            )
            for a, b, t, share in zip(
                got, want, graph.leaves, self.shares, strict=True
            ):
                near(a, filled(b, t), share * finite(filled(b, t)))
        return {w.name for w in ways}

    def _func(self) -> set[str]:
        return self._alone(FUNC, lambda: through(FUNC, *self._question()))

    def _autocast(self) -> set[str]:
        def ask() -> Grads:
            with patience(AT_LEAST + TIMES * self.took):
                return under_autocast(*self._question(), known=[*self.plain])

        return self._alone(AUTOCAST, ask)

    def _question(self) -> tuple[Any, list[Tensor], list[Tensor]]:
        leaves = self.leaves([layouts.CONTIGUOUS] * len(self.xs))
        return self.program, leaves, self.still

    def _alone(self, engine: str, ask: Callable[[], Grads]) -> set[str]:
        """One engine, asked as it would be by itself, so that its failure counts too."""
        ways = [w for w in self.ways if w.presentation.engine == engine]
        if not ways:
            return set()
        (way,) = ways
        try:
            grads = ask()
        except (NotUnderAutocast, TooLong):
            return {way.name}  # does not apply here
        except OutputChanged as error:
            self.replies[way.name] = Reply(None, output_failure(error))
            return set()
        except Exception as error:
            self.replies[way.name] = Reply(None, failure_of(error))
            return set()
        for k, (got, want) in enumerate(zip(grads, self.plain, strict=True)):
            share = self.shares[k] + UNITS * way.unit
            near(got, want, share * self.tops[k])
        return {way.name}


def _layout(way: TorchWay) -> bool:
    return way.factor.endswith("layout")
