"""Names for sets of elements: "x[:, 3:]", "the diagonal", "every second element"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

Sets = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Named:
    """A set of elements that has a name.

    ``text`` follows the array's name ("[:, 3:]"); ``kind`` is the plainest word for it;
    ``axes`` are the axes that it restricts.
    """

    text: str
    kind: str  # all, one, tail, head, middle, edges, every second, diagonal, triangle
    axes: tuple[int, ...] = ()


def named(mask: Sets) -> Named | None:
    """The name of the set of True elements of an array, if it has one."""
    if not mask.any():
        return None
    if mask.all():
        return Named("", "all")
    if mask.ndim == 0:
        return None
    sets: list[Sets] = [
        np.asarray(mask.any(axis=tuple(set(range(mask.ndim)) - {a})))
        for a in range(mask.ndim)
    ]
    box = np.ones(mask.shape, bool)
    for axis, members in enumerate(sets):
        shape = [1] * mask.ndim
        shape[axis] = len(members)
        box = box & members.reshape(shape)
    if np.array_equal(box, mask):
        return _box(sets)
    return _square(mask) or _complement(mask) or _run(mask)


def _box(sets: list[Sets]) -> Named | None:
    words, kinds, axes = [], [], []
    for axis, members in enumerate(sets):
        found = _along(members)
        if found is None:
            return None
        words.append(found[0])
        if found[0] != ":":
            axes.append(axis)
            kinds.append(found[1])
    kind = kinds[0] if len(set(kinds)) == 1 else "block"
    return Named(f"[{', '.join(words)}]", kind, tuple(axes))


def _along(members: Sets) -> tuple[str, str] | None:
    n = len(members)
    at = np.flatnonzero(members)
    first, last = int(at[0]), int(at[-1])
    if len(at) == n:
        return ":", "all"
    if len(at) == 1:
        return str(first), "one"
    if len(at) == last - first + 1:
        if last == n - 1:
            return f"{first}:", "tail"
        return (
            (f":{last + 1}", "head")
            if first == 0
            else (f"{first}:{last + 1}", "middle")
        )
    if len(at) == 2 and (first, last) == (0, n - 1):
        return "[0, -1]", "edges"
    steps = np.diff(at)
    if len(at) > 2 and np.all(steps == steps[0]):
        step = int(steps[0])
        if first < step and last + step >= n:
            return f"{first}::{step}", "every second" if step == 2 else "every few"
    holes = np.flatnonzero(~members)
    if len(holes) == 1:
        return f"all but {holes[0]}", "all but one"
    return None


def _square(mask: Sets) -> Named | None:
    if mask.ndim < 2 or mask.shape[-1] != mask.shape[-2]:
        return None
    n, lead = mask.shape[-1], tuple(range(mask.ndim - 2))
    eye = np.eye(n, dtype=bool)
    shapes = {
        "the diagonal of ": eye,
        "the off-diagonal of ": ~eye,
        "the upper triangle of ": np.triu(np.ones((n, n), bool), 1),
        "the lower triangle of ": np.tril(np.ones((n, n), bool), -1),
        "the upper triangle with diagonal of ": np.triu(np.ones((n, n), bool)),
        "the lower triangle with diagonal of ": np.tril(np.ones((n, n), bool)),
    }
    for text, pattern in shapes.items():
        if np.array_equal(np.broadcast_to(pattern, mask.shape), mask):
            return Named(text, "diagonal" if "diagonal of" in text else "triangle")
    width = int(np.abs(np.subtract(*np.nonzero(mask.any(axis=lead)))).max())
    band = np.tri(n, k=width, dtype=bool) & ~np.tri(n, k=-width - 1, dtype=bool)
    if width and np.array_equal(np.broadcast_to(band, mask.shape), mask):
        return Named(
            f"the band of width {2 * width + 1} along the diagonal of ", "band"
        )
    return None


def _complement(mask: Sets) -> Named | None:
    """All but a box of whole lines (a frame, an edge)."""
    if mask.ndim < 2 or min(mask.shape) < 3:
        return None
    inner = np.zeros(mask.shape, bool)
    inner[(slice(1, -1),) * mask.ndim] = True
    if np.array_equal(inner, ~mask):
        return Named("[border]", "edges", tuple(range(mask.ndim)))
    return None


def _run(mask: Sets) -> Named | None:
    """Neighbours in memory that begin or end within a line."""
    at = np.flatnonzero(mask)
    first, last = int(at[0]), int(at[-1])
    if len(at) != last - first + 1:
        return None
    words, kind = _along(mask.ravel()) or ("", "")
    return Named(f".flatten()[{words}]", kind, tuple(range(mask.ndim)))


def call(path: str, found: Named) -> str:
    """The name of a named part of an array: "x[:, 3:]", "the diagonal of a"."""
    if found.text.startswith(("[", ".")):
        return path + found.text
    return found.text + path


def named_within(mask: Sets, most: Sets) -> Named | None:
    """The name of a set between two: all of ``mask``, and nothing outside ``most``."""
    for candidate in _between(mask):
        found = named(candidate) if not (candidate & ~most).any() else None
        if found is not None:
            return found
    return None


def _between(mask: Sets) -> Iterator[Sets]:
    """The set, the box around it, and boxes that reach to an end of the last axes."""
    yield mask
    if not mask.ndim or not mask.any():
        return
    spans = []
    for axis in range(mask.ndim):
        at = np.flatnonzero(mask.any(axis=tuple(set(range(mask.ndim)) - {axis})))
        low, high = int(at[0]), int(at[-1]) + 1
        spans.append(
            [(low, high), (low, mask.shape[axis]), (0, high), (0, mask.shape[axis])]
        )
    for choice in sorted(product(range(4), repeat=mask.ndim), key=sum):
        box = np.zeros(mask.shape, bool)
        box[tuple(slice(*spans[a][c]) for a, c in enumerate(choice))] = True
        yield box
