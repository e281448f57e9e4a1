"""The same ways at other numbers: constant along an axis, one tensor for two inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gradproof.adapters import torch_layouts as layouts
from gradproof.adapters.torch_covering import has_stride_zero
from gradproof.adapters.torch_handed import Graph, Handed, Odd, filled, finite, near
from gradproof.adapters.torch_presentation import Presentation, TorchWay, zero_axes

# Factors that take the other point away from x; the first that the function takes.
_SCALES = (0.875, 1.0, 1.125)


class _Expansion:
    """One layout of stride 0 for each of some leaves."""

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        self.names: set[str] = set()

    def layout(self, k: int) -> str:
        return self.found.get(k, layouts.CONTIGUOUS)


class Level(Handed):
    """The questions that are asked at numbers of their own, with their plain answers."""

    def __init__(self, *question: Any) -> None:
        """As for ``torch_together.together``."""
        super().__init__(*question)
        self.twins = _twins(self.ways, len(self.domain))
        self.even: list[Tensor] = []  # other cotangents
        self.evened: list[Tensor] = []  # these, between guards
        self.level: list[Tensor] = []  # other numbers
        self.away: Graph | None = None  # the forward there
        self.there: list[list[Tensor]] = []  # gradients there, by cotangents

    # Other numbers, constant where an expanded tensor has them constant.

    def elsewhere(self) -> Graph:
        """The forward at other numbers, the first that the function takes."""
        for scale in _SCALES:
            self.level = self._level(scale)
            leaves = [t.requires_grad_() for t in self.packed(self.level)]
            try:
                self.away = self.forward(leaves)
            except Exception:
                continue
            return self.away
        raise Odd

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

    def evenly(self) -> list[Tensor]:
        """The first of these cotangents, packed, to be looked at again."""
        if not self.even:
            self.even = self._even(0)
            self.evened = self.packed(self.even)
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

    def expanded(self) -> set[str]:
        """Stride 0, held against the same numbers packed."""
        away, names = self._gone(), set[str]()
        for k, row in enumerate(self._expansions(lambda p: p.cotangent)):
            even = self._even(k) if k else self.even
            if k == len(self.there):
                self.there.append(self._pulled(away, self.packed(even)))
            spec = [row.layout(i) for i in range(len(even))]
            got = self._pulled(away, self.present(even, spec))
            for a, b, share in zip(got, self.there[k], self.shares, strict=True):
                near(a, b, share * finite(b))
            names |= row.names
            self.undisturbed()
        away.outs = []
        for row in self._expansions(lambda p: p.inputs):
            spec = [row.layout(i) for i in range(len(self.xs))]
            leaves = [t.requires_grad_() for t in self.present(self.level, spec)]
            got = self._pulled(self.forward(leaves), self.evenly())
            for k, leaf in enumerate(self.domain):
                axes = zero_axes(leaf, spec[k])
                self._sums(k, got[k], [self.there[0][k]], axes)
            names |= row.names
            self.undisturbed()
        return names

    def aliased(self) -> set[str]:
        """Twins passed as one tensor, which has the sum of their gradients."""
        ways = [w for w in self.ways if w.factor == "aliasing"]
        if not ways:
            return set()
        leaves: list[Tensor] = []
        for k, t in enumerate(self._gone().leaves):
            twin = self.twins[k]
            leaves.append(leaves[twin] if twin < k else t.detach().requires_grad_())
        got = self._pulled(self.forward(leaves), self.evenly())
        for k, twin in enumerate(self.twins):
            if twin == k:
                parts = [
                    g for g, t in zip(self.there[0], self.twins, strict=True) if t == k
                ]
                self._sums(k, got[k], parts, ())
        return {w.name for w in ways}

    def _gone(self) -> Graph:
        """The graph at other numbers, where its gradients are known and finite."""
        if self.away is None or not self.there:
            raise Odd
        self.shown += zip(self.away.leaves, self.level, strict=True)
        return self.away

    def _pulled(self, graph: Graph, cotangents: Sequence[Tensor]) -> list[Tensor]:
        grads = self.pull(graph, cotangents, retain=graph is self.away)
        return [filled(g, t) for g, t in zip(grads, graph.leaves, strict=True)]

    def _sums(
        self, k: int, got: Tensor, parts: list[Tensor], axes: tuple[int, ...]
    ) -> None:
        """``got`` and ``parts`` have the same sum over ``axes``."""
        top = max(finite(part) for part in parts)
        want = sum((_total(part, axes) for part in parts[1:]), _total(parts[0], axes))
        room = self.shares[k] * max(top, finite(want))
        near(_total(got, axes), want, room)


def _twins(ways: Sequence[TorchWay], n: int) -> list[int]:
    """For each input the first of those that a way passes as the same tensor."""
    out = list(range(n))
    for pair in sorted(w.presentation.alias for w in ways if w.presentation.alias):
        out[pair[1]] = out[pair[0]]
    return out


def _first(t: Tensor, axes: tuple[int, ...]) -> Tensor:
    """``t`` at the first index of ``axes``, which stay."""
    return t[tuple(slice(1) if a in axes else slice(None) for a in range(t.ndim))]


def _total(g: Tensor, axes: tuple[int, ...]) -> Tensor:
    wide = torch.complex128 if g.is_complex() else torch.float64
    return g.sum(dim=axes, keepdim=True, dtype=wide) if axes else g.to(wide)
