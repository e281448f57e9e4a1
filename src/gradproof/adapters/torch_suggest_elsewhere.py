"""The same arguments at other shapes, where the forward still runs."""

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
