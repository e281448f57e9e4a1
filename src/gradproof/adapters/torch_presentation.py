"""How one question is put to PyTorch, and what that does to x, ȳ and x̄.

A place moves (x, ȳ) to what a presentation can hold; a fold is what the plain answer
becomes in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gradproof.adapters import torch_layouts as layouts
from gradproof.adapters.torch_engines import GRAD
from gradproof.rule import Way
from gradproof.space import Leaf, Mask, Space, Vector

ONCE, TWICE, RETAINED = "once", "twice", "retained"
INTERLEAVED, AFTER_FORWARD, KEPT = "interleaved", "after forward", "kept"


@dataclass(frozen=True)
class Presentation:
    """How one question is put to PyTorch.

    ``cotangent`` and ``inputs`` are layouts, one for all leaves or one each, separated
    by commas (see ``torch_layouts.layouts_of``). ``needs`` says which inputs require
    grad, ``outputs`` which outputs have a cotangent (None: all of them); ``alias`` which
    two inputs are one tensor. ``calls`` is what else is called around the question.
    ``engine`` is who asks; "vmap" is followed by the axis of each input, as in
    "vmap 0,-,1" (-: not batched).
    """

    cotangent: str = layouts.CONTIGUOUS
    inputs: str = layouts.CONTIGUOUS
    needs: tuple[bool, ...] | None = None
    outputs: tuple[bool, ...] | None = None
    calls: str = ONCE
    engine: str = GRAD
    alias: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class TorchWay(Way):
    """A way that PyTorch has of asking."""

    presentation: Presentation = Presentation()


Place = Callable[[Vector, Vector], tuple[Vector, Vector]]


def held_constant(
    space: Space, leaf: Leaf, layout: str, which: int, x: Vector, ybar: Vector
) -> tuple[Vector, Vector]:
    """One leaf of x (``which`` 0) or of ȳ (1) made constant where its stride is 0."""
    pair = [x, ybar]
    moved = pair[which].copy()
    layouts.constant(space.view(moved, leaf), leaf, layout)
    pair[which] = moved
    return pair[0], pair[1]


def zero_axes(leaf: Leaf, layout: str) -> tuple[int, ...]:
    """The axes along which ``layout`` has stride 0."""
    if layout == layouts.SCALAR:
        return tuple(range(len(leaf.shape)))
    axis = layouts.axis_of(layout, leaf.shape)
    return () if axis is None else (axis,)


def summed(space: Space, leaf: Leaf, axes: tuple[int, ...], v: Vector) -> Vector:
    """``v`` with the leaf's sum over ``axes`` at their first index, zeros beyond."""
    out = v.copy()
    view = space.view(out, leaf)
    with np.errstate(invalid="ignore", over="ignore"):
        total = view.sum(axis=axes, keepdims=True)
    view[...] = 0.0
    view[tuple(slice(1) if a in axes else slice(None) for a in range(view.ndim))] = (
        total
    )
    return out


def firsts(space: Space, leaf: Leaf, axes: tuple[int, ...]) -> Mask:
    """All coordinates, of ``leaf`` only those at the first index of ``axes``."""
    out = np.ones(space.size, dtype=np.bool_)
    view = out[leaf.slice].reshape(leaf.view_shape)
    view[...] = False
    view[tuple(slice(1) if a in axes else slice(None) for a in range(view.ndim))] = True
    return out


def unused(
    space: Space, used: tuple[bool, ...], x: Vector, ybar: Vector
) -> tuple[Vector, Vector]:
    """Zero cotangents where there will be none."""
    out = ybar.copy()
    for leaf, keep in zip(space, used, strict=True):
        if not keep:
            out[leaf.slice] = 0.0
    return x, out


def one_tensor(a: Leaf, b: Leaf, x: Vector, ybar: Vector) -> tuple[Vector, Vector]:
    """The point whose ``b`` holds the numbers of ``a``."""
    out = x.copy()
    out[b.slice] = out[a.slice]
    return out, ybar


def one_gradient(a: Leaf, b: Leaf, v: Vector) -> Vector:
    """The gradient of one tensor that stands in two places, at the first of them."""
    out = v.copy()
    with np.errstate(invalid="ignore", over="ignore"):
        out[a.slice] += out[b.slice]
    out[b.slice] = 0.0
    return out


def only(space: Space, keep: Iterable[bool]) -> Mask:
    """The coordinates of the leaves that are kept."""
    out = np.zeros(space.size, dtype=np.bool_)
    for leaf, kept in zip(space, keep, strict=True):
        out[leaf.slice] = kept
    return out


def in_memory(domain: Space, how: Presentation, v: Vector) -> Vector:
    """x̄ as a presentation answers: the gradient of what is in memory.

    Sums over axes of stride 0, at their first index; the gradient of one tensor in two
    places at the first of them.
    """
    given = layouts.layouts_of(how.inputs, len(domain))
    for leaf, layout in zip(domain, given, strict=True):
        axes = zero_axes(leaf, layout)
        if axes:
            v = summed(domain, leaf, axes, v)
    if how.alias is not None:
        v = v.copy()
        v[domain.leaves[how.alias[1]].slice] = 0.0
    return v
