"""Many ways asked in one go, where a problem is too large to ask each by itself.

A forward serves several backwards, and what one way must call besides is what another
asks for. Here nothing is told apart: whatever differs, raises or is disturbed leaves its
ways unsettled, and they are asked one by one, as on small problems.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradproof.adapters import torch_layouts as layouts
from gradproof.adapters import torch_ways
from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_autocast import NotUnderAutocast, under_autocast
from gradproof.adapters.torch_compare import furthest, largest, same_bits
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
    pull,
    through,
)
from gradproof.adapters.torch_presentation import (
    AFTER_FORWARD,
    INTERLEAVED,
    KEPT,
    RETAINED,
    TWICE,
    Presentation,
    TorchWay,
    zero_axes,
)
from gradproof.adapters.torch_program import OutputChanged, output_failure
from gradproof.adapters.torch_tensors import REAL, Spec, dense
from gradproof.patience import AT_LEAST, TIMES, TooLong, patience
from gradproof.rule import UNITS, Reply, Together

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule

_CALLS = (TWICE, RETAINED, INTERLEAVED, AFTER_FORWARD, KEPT)
# The other cotangent of a batch is this multiple of the one whose answer is known.
_LANE = -2.0
# Factors that take the other point away from x; the first that the function takes.
_SCALES = (0.875, 1.0, 1.125)


class _Odd(Exception):
    """Something that is for the single ways to tell."""


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


class _Graph:
    """A forward that was run, and its leaves."""

    def __init__(self, leaves: list[Tensor], outs: list[Tensor]) -> None:
        self.leaves, self.outs = leaves, outs


class _Row:
    """Layouts that are asked together, for each input and each cotangent."""

    def __init__(self, group: Sequence[TorchWay], n: int, m: int) -> None:
        how = combined([Presentation(), *(way.presentation for way in group)])
        self.names = {way.name for way in group}
        self.inputs = layouts.layouts_of(how.inputs, n)
        self.cotangents = layouts.layouts_of(how.cotangent, m)


class _Asking:
    """All that is asked of one rule at one point."""

    def __init__(
        self,
        rule: TorchRule,
        xs: Sequence[Any],
        ybars: Sequence[Any],
        xbars: Sequence[Any],
        shares: Sequence[float],
    ) -> None:
        self.program, self.shares = rule.program, shares
        self.domain, self.codomain = rule.forward.domain, rule.forward.codomain
        self.xs = [_master(s, a) for s, a in zip(self.program.specs, xs, strict=True)]
        self.ys = [
            _master(s, a) for s, a in zip(rule.forward.specs, ybars, strict=True)
        ]
        self.plain = [
            _master(s, a) for s, a in zip(self.program.specs, xbars, strict=True)
        ]
        self.tops = [largest(_real(g)) for g in self.plain]
        self.shown: list[tuple[Tensor, Tensor | None]] = []
        self.took = 0.0  # the longest forward, in seconds
        self.ways = torch_ways.ways_for(rule)
        self.rows: list[_Row] = []
        self.twins = _twins(self.ways, len(self.domain))
        self.edits = [w for w in self.ways if w.factor == "edits"]
        self.agreed: set[str] = set()
        self.replies: dict[str, Reply] = {}
        self.even: list[Tensor] = []  # other cotangents
        self.evened: list[Tensor] = []  # these, between guards
        self.level: list[Tensor] = []  # other numbers
        self.away: _Graph | None = None  # the forward there
        self.there: list[list[Tensor]] = []  # gradients there, by cotangents

    def asked(self) -> Together:
        """What could be settled."""
        if not all(isfinite(top) for top in self.tops):
            return Together()
        with self.program.state, torch.enable_grad():
            self.base = self._packed(self.xs)
            self.still = self._packed(self.ys)
            kept, self.shown = self.shown, []
            steps = (
                self._core,
                self._expanded,
                self._aliased,
                self._needs,
                self._outputs,
                self._autocast,
                self._func,
            )
            for step in steps:
                try:
                    names = step()
                    self._undisturbed()
                except Exception:
                    # Whoever asks its ways one by one will hear of it.
                    if step == self._core:
                        return Together()
                else:
                    self.agreed |= names
            self.shown = kept
            try:
                self._undisturbed()
            except _Odd:
                return Together()
        return Together(frozenset(self.agreed), self.replies)

    # What is handed over, and what became of it.

    def _present(self, tensors: Sequence[Tensor], spec: Sequence[str]) -> list[Tensor]:
        """``tensors`` between guards, laid out as ``spec``."""
        out = []
        for t, layout in zip(tensors, spec, strict=True):
            out.append(layouts.present(t, layout))
            self.shown.append((out[-1], t))
        return out

    def _packed(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return self._present(tensors, [layouts.CONTIGUOUS] * len(tensors))

    def _leaves(self, spec: Sequence[str], *, own: bool = False) -> list[Tensor]:
        """The point as leaves of a graph; packed ones share memory unless ``own``."""
        out = []
        for still, x, layout in zip(self.base, self.xs, spec, strict=True):
            shared = layout == layouts.CONTIGUOUS and not own
            t = still.detach() if shared else self._present([x], [layout])[0]
            out.append(t.requires_grad_())
        return out

    def _cotangents(self, spec: Sequence[str]) -> list[Tensor]:
        return [
            b if layout == layouts.CONTIGUOUS else self._present([t], [layout])[0]
            for b, t, layout in zip(self.still, self.ys, spec, strict=True)
        ]

    def _undisturbed(self) -> None:
        """Nothing that was handed over holds other numbers, nor what lies around it."""
        shown, self.shown = self.shown, []
        self._whole(shown)

    def _whole(self, shown: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        for t, was in shown:
            untouched = was is None or self.program.copies or same_bits(t.detach(), was)
            if not (untouched and layouts.guards_intact(t)):
                raise _Odd

    # One forward, one backward, one comparison.

    def _forward(self, leaves: list[Tensor]) -> _Graph:
        self.program.state.again()
        started = time.perf_counter()
        outs = self.program(leaves)
        self.took = max(self.took, time.perf_counter() - started)
        return _Graph(leaves, outs)

    def _pull(
        self, graph: _Graph, cotangents: Sequence[Tensor | None], **how: bool
    ) -> Grads:
        return pull(graph.outs, graph.leaves, cotangents, **how)

    def _same(
        self, grads: Grads, times: float = 1.0, which: Sequence[bool] = ()
    ) -> None:
        """``grads`` are ``times`` the plain ones, of the leaves ``which`` (all)."""
        for k, (got, want) in enumerate(zip(grads, self.plain, strict=True)):
            if not which or which[k]:
                room = abs(times) * self.shares[k] * self.tops[k]
                _near(got, want, room, times)

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
            graph = self._forward(self._leaves(row.inputs, own=bool(self.edits)))
            self._same(self._pull(graph, self._cotangents(row.cotangents), retain=True))
            self._spoil(graph)
            self._undisturbed()
        names |= {w.name for w in self.ways if w.presentation.calls in _CALLS}
        names |= {w.name for w in self.ways if w.factor == "edits"}
        return names | self._by_engine(BACKWARD, CHECKPOINT)

    def _by_engine(self, *engines: str) -> set[str]:
        return {w.name for w in self.ways if w.presentation.engine in engines}

    def _trained(self, row: _Row) -> None:
        """Two steps of training: one tensor asked twice, its gradient added up."""
        leaves = self._leaves(row.inputs, own=bool(self.edits))
        self._step(leaves, self._cotangents(row.cotangents))
        self._same([t.grad for t in leaves])
        self._undisturbed()  # before memory that .grad may share is added to
        graph = self._step(leaves, self.still)
        self._same([t.grad for t in leaves], 2.0)
        self.shown += zip(leaves, self.xs, strict=True)
        self._spoil(graph)
        self._undisturbed()

    def _step(self, leaves: list[Tensor], cotangents: list[Tensor]) -> _Graph:
        graph = self._forward(leaves)
        pairs = [
            (t, c)
            for t, c in zip(graph.outs, cotangents, strict=True)
            if t.requires_grad
        ]
        if not pairs:
            raise _Odd
        torch.autograd.backward(
            [t for t, _ in pairs],
            [c for _, c in pairs],
            retain_graph=bool(self.edits),
            inputs=leaves,
        )
        return graph

    def _among_others(self, one: _Row, two: _Row) -> None:
        """Two graphs of ours, and one at other numbers between their calls."""
        first = self._forward(self._leaves(one.inputs, own=bool(self.edits)))
        away = self._elsewhere()
        kept = self._pull(first, self._cotangents(one.cotangents), retain=True)
        second = self._forward(self._leaves(two.inputs, own=len(self.edits) > 1))
        with torch.no_grad():
            self._forward([t.detach() for t in away.leaves])
        self._same(self._pull(second, self._cotangents(two.cotangents), retain=True))
        there = self._pull(away, self._evenly(), retain=True)
        self._same(kept)
        self._same(self._pull(first, self.still, retain=True))
        self.there = [[_filled(g, t) for g, t in zip(there, away.leaves, strict=True)]]
        self._spoil(first)
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
        self._undisturbed()

    def _create(self, graph: _Graph) -> None:
        self._same(self._pull(graph, self.still, create=True))

    def _batched(self, graph: _Graph) -> None:
        """Two cotangents at once; the answer to a multiple is that multiple."""
        both = [c.new_empty((2, *c.shape)) for c in self.still]
        for pair, c in zip(both, self.still, strict=True):
            torch.mul(c, _LANE, out=pair[0])
            pair[1].copy_(c)
        grads = self._pull(graph, both, retain=True, batched=True)
        self._same([None if g is None else g[0] for g in grads], _LANE)
        self._same([None if g is None else g[1] for g in grads])

    def _recomputed(self, row: _Row) -> None:
        leaves = self._leaves(row.inputs)
        cotangents = self._cotangents(row.cotangents)
        self._same(through(CHECKPOINT, self.program, leaves, cotangents))
        self._undisturbed()

    def _spoil(self, graph: _Graph) -> None:
        """Write on inputs before the last backward: refused, or no difference."""
        if not self.edits:
            return
        numbers = self.edits.pop().presentation.engine.split(" ")[1]
        chosen = [(graph.leaves[int(i)], self.xs[int(i)]) for i in numbers.split(",")]
        edited = {id(t) for t, _ in chosen}
        self._whole([pair for pair in self.shown if id(pair[0]) in edited])
        self.shown = [(t, None if id(t) in edited else x) for t, x in self.shown]
        with torch.no_grad():
            for t, x in chosen:
                t.copy_(elsewhere([x], flip=True, scale=0.875)[0])
        try:
            grads = self._pull(graph, self.still)
        except Exception:
            return  # refused, as it ought to be
        self._same(grads)

    # Other numbers, constant where an expanded tensor has them constant.

    def _elsewhere(self) -> _Graph:
        """The forward at other numbers, the first that the function takes."""
        for scale in _SCALES:
            self.level = self._level(scale)
            leaves = [t.requires_grad_() for t in self._packed(self.level)]
            try:
                self.away = self._forward(leaves)
            except Exception:
                continue
            return self.away
        raise _Odd

    def _level(self, scale: float) -> list[Tensor]:
        """Each leaf constant along the axes that a way expands, one number for twins."""
        rows = self._expansions(lambda p: p.inputs)
        out: list[Tensor] = []
        for k, x in enumerate(self.xs):
            if self.twins[k] < k:
                out.append(out[self.twins[k]])
                continue
            layout = rows[0].layout(k) if rows else layouts.CONTIGUOUS
            first = _first(x, zero_axes(self.domain.leaves[k], layout))
            moved = first * scale if bool(first.any()) else torch.full_like(first, 0.25)
            out.append(torch.empty_like(x).copy_(moved))
        return out

    def _even(self, k: int) -> list[Tensor]:
        """Cotangents that are constant along the axes that row ``k`` expands."""
        rows = self._expansions(lambda p: p.cotangent)
        if not rows:
            return self.ys
        out = []
        for i, (leaf, y) in enumerate(zip(self.codomain, self.ys, strict=True)):
            axes = zero_axes(leaf, rows[k].layout(i))
            out.append(torch.empty_like(y).copy_(_first(y, axes)) if axes else y)
        return out

    def _evenly(self) -> list[Tensor]:
        """The first of these cotangents, packed, to be looked at again."""
        if not self.even:
            self.even = self._even(0)
            self.evened = self._packed(self.even)
        else:
            self.shown += zip(self.evened, self.even, strict=True)
        return self.evened

    def _expansions(self, spec: Callable[[Presentation], str]) -> list[_Expansion]:
        """The layouts of stride 0 in rows, one of each leaf."""
        rows: list[_Expansion] = []
        for way in self.ways:
            words = spec(way.presentation).split(",")
            odd = [i for i, word in enumerate(words) if word != layouts.CONTIGUOUS]
            if not odd or not has_stride_zero(way.presentation):
                continue
            free = [row for row in rows if odd[0] not in row.found]
            if not free:
                rows.append(_Expansion())
                free = rows[-1:]
            free[0].found[odd[0]] = words[odd[0]]
            free[0].names.add(way.name)
        return rows

    def _expanded(self) -> set[str]:
        """Stride 0, held against the same numbers packed."""
        away, names = self._gone(), set[str]()
        for k, row in enumerate(self._expansions(lambda p: p.cotangent)):
            even = self._even(k) if k else self.even
            if k == len(self.there):
                self.there.append(self._pulled(away, self._packed(even)))
            spec = [row.layout(i) for i in range(len(even))]
            got = self._pulled(away, self._present(even, spec))
            for a, b, share in zip(got, self.there[k], self.shares, strict=True):
                _near(a, b, share * _finite(b))
            names |= row.names
            self._undisturbed()
        away.outs = []
        for row in self._expansions(lambda p: p.inputs):
            spec = [row.layout(i) for i in range(len(self.xs))]
            leaves = [t.requires_grad_() for t in self._present(self.level, spec)]
            got = self._pulled(self._forward(leaves), self._evenly())
            for k, leaf in enumerate(self.domain):
                axes = zero_axes(leaf, spec[k])
                self._sums(k, got[k], [self.there[0][k]], axes)
            names |= row.names
            self._undisturbed()
        return names

    def _aliased(self) -> set[str]:
        """Twins passed as one tensor, which has the sum of their gradients."""
        ways = [w for w in self.ways if w.factor == "aliasing"]
        if not ways:
            return set()
        leaves: list[Tensor] = []
        for k, t in enumerate(self._gone().leaves):
            twin = self.twins[k]
            leaves.append(leaves[twin] if twin < k else t.detach().requires_grad_())
        got = self._pulled(self._forward(leaves), self._evenly())
        for k, twin in enumerate(self.twins):
            if twin == k:
                parts = [
                    g for g, t in zip(self.there[0], self.twins, strict=True) if t == k
                ]
                self._sums(k, got[k], parts, ())
        return {w.name for w in ways}

    def _gone(self) -> _Graph:
        """The graph at other numbers, where its gradients are known and finite."""
        if self.away is None or not self.there:
            raise _Odd
        self.shown += zip(self.away.leaves, self.level, strict=True)
        return self.away

    def _pulled(self, graph: _Graph, cotangents: Sequence[Tensor]) -> list[Tensor]:
        grads = self._pull(graph, cotangents, retain=graph is self.away)
        return [_filled(g, t) for g, t in zip(grads, graph.leaves, strict=True)]

    def _sums(
        self, k: int, got: Tensor, parts: list[Tensor], axes: tuple[int, ...]
    ) -> None:
        """``got`` and ``parts`` have the same sum over ``axes``."""
        top = max(_finite(part) for part in parts)
        want = sum((_total(part, axes) for part in parts[1:]), _total(parts[0], axes))
        room = self.shares[k] * max(top, _finite(want))
        _near(_total(got, axes), want, room)

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
                cotangents = self._cotangents(next(spec))
                self._same(self._pull(self._forward(leaves), cotangents), which=needs)
                self._undisturbed()
                names.add(way.name)
        return names

    def _outputs(self) -> set[str]:
        """A cotangent that is left out is as good as zeros."""
        ways = [w for w in self.ways if w.presentation.outputs is not None]
        if not ways:
            return set()
        graph = self._forward(self._leaves([layouts.CONTIGUOUS] * len(self.xs)))
        for way in ways:
            pairs = list(zip(self.still, way.presentation.outputs or (), strict=True))
            zeros = [c if used else torch.zeros_like(c) for c, used in pairs]
            want = self._pull(graph, zeros, retain=True)
            got = self._pull(
                graph, [c if used else None for c, used in pairs], retain=True
            )
            for a, b, t, share in zip(
                got, want, graph.leaves, self.shares, strict=True
            ):
                _near(a, _filled(b, t), share * _finite(_filled(b, t)))
        return {w.name for w in ways}

    def _func(self) -> set[str]:
        return self._alone(FUNC, lambda: through(FUNC, *self._question()))

    def _autocast(self) -> set[str]:
        def ask() -> Grads:
            with patience(AT_LEAST + TIMES * self.took):
                return under_autocast(*self._question(), known=[*self.plain])

        return self._alone(AUTOCAST, ask)

    def _question(self) -> tuple[Any, list[Tensor], list[Tensor]]:
        leaves = self._leaves([layouts.CONTIGUOUS] * len(self.xs))
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
            _near(got, want, share * self.tops[k])
        return {way.name}


class _Expansion:
    """One layout of stride 0 for each of some leaves."""

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        self.names: set[str] = set()

    def layout(self, k: int) -> str:
        return self.found.get(k, layouts.CONTIGUOUS)


def _layout(way: TorchWay) -> bool:
    return way.factor.endswith("layout")


def _master(spec: Spec, array: Any) -> Tensor:
    """The numbers of ``array``, which is of the view shape, as ``spec`` says.

    Shares its memory where nothing has to be converted.
    """
    t = array if isinstance(array, Tensor) else torch.from_numpy(array)
    t = t.detach().to(device=spec.device, dtype=REAL[spec.precision])
    if spec.is_complex:
        t = torch.view_as_complex(t.contiguous())
    if spec.strides is None:
        return t.contiguous()
    room = torch.empty_strided(
        spec.shape, spec.strides, dtype=spec.dtype, device=spec.device
    )
    return room.copy_(t)


def _twins(ways: Sequence[TorchWay], n: int) -> list[int]:
    """For each input the first of those that a way passes as the same tensor."""
    out = list(range(n))
    for pair in sorted(w.presentation.alias for w in ways if w.presentation.alias):
        out[pair[1]] = out[pair[0]]
    return out


def _first(t: Tensor, axes: tuple[int, ...]) -> Tensor:
    """``t`` at the first index of ``axes``, which stay."""
    return t[tuple(slice(1) if a in axes else slice(None) for a in range(t.ndim))]


def _real(t: Tensor) -> Tensor:
    t = dense(t.detach()).resolve_neg()
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def _filled(g: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if g is None else g.detach()


def _total(g: Tensor, axes: tuple[int, ...]) -> Tensor:
    wide = torch.complex128 if g.is_complex() else torch.float64
    return g.sum(dim=axes, keepdim=True, dtype=wide) if axes else g.to(wide)


def _finite(t: Tensor) -> float:
    """The largest |t|, which must be finite."""
    top = largest(_real(t))
    if not isfinite(top):
        raise _Odd
    return top


def _near(got: Tensor | None, want: Tensor, room: float, times: float = 1.0) -> None:
    """``got`` is ``times`` ``want`` within ``room``; None counts as zeros."""
    want = _real(want)
    far = abs(times) * largest(want)
    if got is not None:
        far = furthest(_real(got), want, times)
    if not far <= room:
        raise _Odd
