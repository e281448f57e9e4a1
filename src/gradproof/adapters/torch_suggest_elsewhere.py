"""The same arguments at other shapes and ranks, where the forward still runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradproof.adapters.torch_body import run_body


def elsewhere(cls: Any, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """``args`` at up to two other shapes at which the forward of ``cls`` runs.

    Equal extents stay equal; values are repeated with a slight change, so that what holds
    of them (positive, within bounds, a valid index) still does.
    """
    out = [other for grow in _GROWTHS if _runs(cls, other := _resized(args, grow))]
    if len(out) < 2:
        out += _one_by_one(cls, args)
    return tuple(out[:2])


_GROWTHS: tuple[Callable[[int], int], ...] = (
    lambda n: n + 1 + n % 2 if n > 1 else n,
    lambda n: n + 3 if n > 1 else n,
    lambda n: 2 * n if n > 1 else n,
)


def _one_by_one(cls: Any, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Only one extent grown, where all together do not run."""
    extents = {n for a in args if isinstance(a, Tensor) for n in a.shape if n > 1}
    found = []
    for extent in sorted(extents):
        for more in (extent + 1, 2 * extent):
            other = _resized(args, _only(extent, more))
            if _runs(cls, other):
                found.append(other)
    return found


def _only(extent: int, more: int) -> Callable[[int], int]:
    return lambda n: more if n == extent else n


def _runs(cls: Any, args: tuple[Any, ...]) -> bool:
    try:
        with torch.no_grad():
            run_body(cls, args, {})
    except Exception:  # the forward does not take this shape
        return False
    return True


def _resized(args: tuple[Any, ...], grow: Callable[[int], int]) -> tuple[Any, ...]:
    asked = any(isinstance(t, Tensor) and t.requires_grad for t in args)
    return tuple(
        _grown(a, grow, asked=asked) if isinstance(a, Tensor) else a for a in args
    )


def _grown(t: Tensor, grow: Callable[[int], int], *, asked: bool) -> Tensor:
    shape = tuple(grow(n) for n in t.shape)
    out = t.detach()
    for d, n in enumerate(shape):
        at = torch.arange(n) % max(out.shape[d], 1)
        out = out.index_select(d, at.to(out.device))
    if not out.is_floating_point() and not out.is_complex():
        return out
    # No two alike, and nearer to 0, where what was within bounds still is.
    ramp = torch.linspace(0, 1, max(out.numel(), 1), dtype=torch.float64)
    ramp = (1 - 0.2 * torch.frac(ramp * 37.0)).reshape(out.shape).to(out.device)
    return (out * ramp).to(t.dtype).requires_grad_(t.requires_grad or not asked)


def only_this_rank(cls: Any, function: Any, args: tuple[Any, ...]) -> bool:
    """Whether the forward takes another rank, at which ``function`` is not its gradient.

    A rough question (one direction, to four digits): it decides about a remark.
    """
    return any(
        _runs(cls, other) and not _agrees(function, other) for other in _ranks(args)
    )


def _ranks(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The leading axis of the first array dropped, and one put before it.

    With it go the arrays of the same leading extents; or it goes alone.
    """
    first = next(
        (a for a in args if isinstance(a, Tensor) and a.is_floating_point()), None
    )
    if first is None or not first.dim():
        return []
    found = []
    for change in (lambda t: t[0], lambda t: torch.stack([t, 0.9 * t])):
        for along in (lambda t: t is first, lambda t: t.shape == first.shape):
            found.append(
                tuple(
                    change(a.detach()).requires_grad_(a.requires_grad)
                    if isinstance(a, Tensor) and a.is_floating_point() and along(a)
                    else a
                    for a in args
                )
            )
    return found


def _agrees(function: Any, args: tuple[Any, ...]) -> bool:
    """<ȳ, J u> by a central difference, and <x̄, u> by the function's own backward."""

    def wave(t: Tensor, phase: float) -> Tensor:
        return torch.cos(torch.arange(t.numel()) + phase).to(t.dtype).reshape(t.shape)

    def moved(step: float) -> list[Any]:
        return [
            (a.detach().double() + step * wave(a.double(), 1.0)).requires_grad_()
            if isinstance(a, Tensor) and a.is_floating_point()
            else a
            for a in args
        ]

    def weighed(given: list[Any]) -> Tensor:
        found = function.apply(*given)
        outs = found if isinstance(found, (tuple, list)) else (found,)
        floats = [o for o in outs if isinstance(o, Tensor) and o.is_floating_point()]
        return torch.stack([(o * wave(o, 0.5)).sum() for o in floats]).sum()

    try:
        given = moved(0.0)
        leaves = [a for a in given if isinstance(a, Tensor) and a.is_floating_point()]
        grads = torch.autograd.grad(
            weighed(given), leaves, allow_unused=True, materialize_grads=True
        )
        told = 0.0
        for g, x in zip(grads, leaves, strict=True):
            told += float((g * wave(x, 1.0)).sum())
        ahead, behind = (float(weighed(moved(s)).detach()) for s in (1e-5, -1e-5))
    except Exception:  # a gradient of another shape, an index that is not there
        return False
    slope = (ahead - behind) / 2e-5
    return abs(told - slope) <= 1e-4 * (1.0 + abs(slope))
