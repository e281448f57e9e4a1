"""What is handed to a rule whose ways are asked in one go, and what comes back.

Nothing is copied that need not be: packed inputs share one memory, which is looked at
when all is done.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gradproof.adapters import torch_layouts as layouts
from gradproof.adapters import torch_ways
from gradproof.adapters.torch_compare import furthest, largest, same_bits, twins
from gradproof.adapters.torch_engines import Grads, pull
from gradproof.adapters.torch_tensors import REAL, Spec, dense

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


class Odd(Exception):
    """Something that is for the single ways to tell."""


class Graph:
    """A forward that was run, and its leaves."""

    def __init__(self, leaves: list[Tensor], outs: list[Tensor]) -> None:
        """Take the leaves and what the forward gave."""
        self.leaves, self.outs = leaves, outs


class Handed:
    """One rule at one point: its numbers, and one forward, backward or comparison."""

    def __init__(
        self,
        rule: TorchRule,
        xs: Sequence[Any],
        ybars: Sequence[Any],
        xbars: Sequence[Any],
        shares: Sequence[float],
    ) -> None:
        """As for ``torch_together.together``."""
        self.program, self.shares = rule.program, shares
        self.domain, self.codomain = rule.forward.domain, rule.forward.codomain
        self.xs = [master(s, a) for s, a in zip(self.program.specs, xs, strict=True)]
        self.ys = [master(s, a) for s, a in zip(rule.forward.specs, ybars, strict=True)]
        self.plain = [
            master(s, a) for s, a in zip(self.program.specs, xbars, strict=True)
        ]
        self.tops = [largest(real(g)) for g in self.plain]
        self.base: list[Tensor] = []  # the point, packed between guards
        self.still: list[Tensor] = []  # the cotangents likewise
        self.shown: list[tuple[Tensor, Tensor | None]] = []
        self.took = 0.0  # the longest forward, in seconds
        self.ways = torch_ways.ways_for(rule)

    # What is handed over, and what became of it.

    def present(self, tensors: Sequence[Tensor], spec: Sequence[str]) -> list[Tensor]:
        """``tensors`` between guards, laid out as ``spec``."""
        out = []
        for t, layout in zip(tensors, spec, strict=True):
            out.append(layouts.present(t, layout))
            self.shown.append((out[-1], t))
        return out

    def packed(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """``tensors`` between guards, laid out as they are."""
        return self.present(tensors, [layouts.CONTIGUOUS] * len(tensors))

    def leaves(self, spec: Sequence[str], *, own: bool = False) -> list[Tensor]:
        """The point as leaves of a graph; packed ones share memory unless ``own``."""
        out = []
        for still, x, layout in zip(self.base, self.xs, spec, strict=True):
            shared = layout == layouts.CONTIGUOUS and not own
            t = still.detach() if shared else self.present([x], [layout])[0]
            out.append(t.requires_grad_())
        return out

    def cotangents(self, spec: Sequence[str]) -> list[Tensor]:
        """The cotangents, laid out as ``spec``."""
        return [
            b if layout == layouts.CONTIGUOUS else self.present([t], [layout])[0]
            for b, t, layout in zip(self.still, self.ys, spec, strict=True)
        ]

    def undisturbed(self) -> None:
        """Nothing that was handed over holds other numbers, nor what lies around it."""
        shown, self.shown = self.shown, []
        self.whole(shown)

    def whole(self, shown: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        """That each tensor is what it was, where that is known, and its guards too."""
        for t, was in shown:
            untouched = was is None or self.program.copies or same_bits(t.detach(), was)
            if not (untouched and layouts.guards_intact(t)):
                raise Odd

    # One forward, one backward, one comparison.

    def forward(self, leaves: list[Tensor]) -> Graph:
        """A graph of ``leaves``, everything outside them being as at the beginning."""
        self.program.state.again()
        started = time.perf_counter()
        outs = self.program(leaves)
        self.took = max(self.took, time.perf_counter() - started)
        return Graph(leaves, outs)

    def pull(
        self, graph: Graph, cotangents: Sequence[Tensor | None], **how: bool
    ) -> Grads:
        """One gradient for each leaf of ``graph``."""
        return pull(graph.outs, graph.leaves, cotangents, **how)

    def same(
        self, grads: Grads, times: float = 1.0, which: Sequence[bool] = ()
    ) -> None:
        """``grads`` are ``times`` the plain ones, of the leaves ``which`` (all)."""
        for k, (got, want) in enumerate(zip(grads, self.plain, strict=True)):
            if not which or which[k]:
                room = abs(times) * self.shares[k] * self.tops[k]
                near(got, want, room, times)


def master(spec: Spec, array: Any) -> Tensor:
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


def real(t: Tensor) -> Tensor:
    """``t`` as real numbers, its parts on a last axis where complex."""
    t = dense(t.detach()).resolve_neg()
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def filled(g: Tensor | None, like: Tensor) -> Tensor:
    """A gradient, zeros where there is none."""
    return torch.zeros_like(like) if g is None else g.detach()


def finite(t: Tensor) -> float:
    """The largest |t|, which must be finite."""
    top = largest(real(t))
    if not isfinite(top):
        raise Odd
    return top


def near(got: Tensor | None, want: Tensor, room: float, times: float = 1.0) -> None:
    """``got`` is ``times`` ``want``, which is finite, within ``room``.

    None counts as zeros.
    """
    want = real(want)
    if got is None:
        far = abs(times) * largest(want)
    else:
        got = real(got)
        far = 0.0 if times == 1.0 and twins(got, want) else furthest(got, want, times)
    if not far <= room:
        raise Odd
