"""The sets that an input may be declared to lie in, each with its coordinates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np

from gradproof.space import Leaf, Vector, unit

Array: TypeAlias = np.ndarray[Any, Any]

ROOM = 0.45  # of a gap or of an eigenvalue: how far one coordinate may move
HALVINGS = 40
WORDS = {
    "spd": "symmetric matrices",
    "symmetric": "symmetric matrices",
    "triangular": "lower triangular matrices",
    "upper": "upper triangular matrices",
    "unit": "unit vectors",
    "simplex": "the simplex",
}


def parts_of(pattern: str) -> tuple[str, int]:
    """Name and axis of a pattern: ("unit", 0) of "unit[0]", ("unit", -1) of "unit"."""
    name, _, axis = pattern.partition("[")
    return name, int(axis.rstrip("]")) if axis else -1


class Set(ABC):
    """One leaf's set around a point ``x``: ``size`` coordinates with bounds."""

    plain = False  # its coordinates are the entries themselves
    words = ""  # the set in words, where its tangent space is not everything
    point: Vector
    low: Vector
    high: Vector

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.point)

    @abstractmethod
    def out(self, s: Vector) -> Vector:
        """x(s)."""

    @abstractmethod
    def gather(self, v: Array) -> Array:
        """V C along the last axis."""

    @abstractmethod
    def push(self, u: Array) -> Array:
        """C u."""

    @abstractmethod
    def pull(self, u: Vector) -> Vector:
        """The step s with C s = u, for a tangent u."""

    @abstractmethod
    def spread(self, m: Array) -> Array:
        """M Dᵀ along the last axis."""

    @abstractmethod
    def cover(self, b: Array) -> Array:
        """No less than B |D|ᵀ along the last axis."""

    @abstractmethod
    def marks(self, code: Array) -> Array:
        """The largest code among the coordinates of each entry."""

    def slopes(self, m: Array) -> Array:
        """``spread``, where one entry is one coordinate."""
        return self.spread(m)

    def inside(self, x: Vector) -> bool:
        """Whether the inequalities of the set hold at ``x``."""
        return True

    @abstractmethod
    def settled(self, x: Vector) -> Vector:
        """A point of the set near ``x``."""


class Entries(Set):
    """Each entry is one coordinate, up to a sign, or none (then it stays 0)."""

    def __init__(self, leaf: Leaf, x: Vector) -> None:
        """The leaf and its values, flat."""
        self.name, self.axis = parts_of(leaf.pattern)
        self.leaf, self.x = leaf, x
        self.plain = self.name in ("", "positive", "sorted")
        self.words = WORDS.get(self.name, "")
        self.index, self.sign = _tied(leaf, self.name)
        live = self.index >= 0
        self.count = np.bincount(self.index[live], minlength=1)
        first = np.zeros(int(self.index.max(initial=-1)) + 1, dtype=np.int64)
        order = np.flatnonzero(live)[::-1]
        first[self.index[order]] = order
        self.point = self.sign[first] * x[first]
        below, above = self._room(first)
        self.low = np.maximum(self.point - below, leaf.low)
        self.high = np.minimum(self.point + above, leaf.high)

    def _room(self, first: Array) -> tuple[Vector, Vector]:
        """How far each coordinate may move down and up."""
        free = np.full(len(first), np.inf)
        if self.name == "positive":
            return 0.875 * np.abs(self.point), free
        if self.name == "sorted" and self.x.size:
            rows = np.moveaxis(self.x.reshape(self.leaf.shape), self.axis, -1)
            gap = ROOM * np.diff(rows, axis=-1)
            wide = np.full((*rows.shape[:-1], 1), np.inf)
            below = np.concatenate([wide, gap], axis=-1)
            above = np.concatenate([gap, wide], axis=-1)
            down = np.moveaxis(below, -1, self.axis).reshape(-1)
            up = np.moveaxis(above, -1, self.axis).reshape(-1)
            return down, up
        if self.name == "spd" and self.x.size:
            least = np.linalg.eigvalsh(_matrices(self.leaf, self.x)).min(axis=-1)
            entries = self.leaf.size // least.size
            each = np.repeat(ROOM * least.reshape(-1), entries)[first]
            return each, each
        return free, free

    def out(self, s: Vector) -> Vector:
        """The entries by the coordinates."""
        return self.push(s)

    def gather(self, v: Array) -> Array:
        """Each coordinate's gradient out of those of its entries."""
        if self.plain:
            return v
        live = self.index >= 0
        out = np.zeros((*v.shape[:-1], self.size))
        np.add.at(out.T, self.index[live], (v[..., live] * self.sign[live]).T)
        return out

    def _taken(self, m: Array) -> Array:
        return np.where(self.index >= 0, m[..., self.index], 0)

    def push(self, u: Array) -> Array:
        """The entries' steps."""
        return u if self.plain else self._taken(u) * self.sign

    def pull(self, u: Vector) -> Vector:
        """The mean of what the entries of a coordinate do."""
        return u if self.plain else self.gather(u) / self.count

    def spread(self, m: Array) -> Array:
        """Each entry's share of its coordinate's gradient."""
        if self.plain:
            return m
        return self._taken(m) * (self.sign / self.count[self.index])

    def cover(self, b: Array) -> Array:
        """Errors of the entries."""
        return b if self.plain else self._taken(b) / self.count[self.index]

    def marks(self, code: Array) -> Array:
        """The code of each entry."""
        return self._taken(code)

    def inside(self, x: Vector) -> bool:
        """Whether the inequalities hold."""
        if self.name == "positive":
            return bool((x > 0).all())
        if self.name == "sorted" and x.size:
            rows = np.diff(x.reshape(self.leaf.shape), axis=self.axis)
            return bool((rows >= 0).all())
        return True

    def settled(self, x: Vector) -> Vector:
        """The nearest such entries, or a point on the way to them."""
        if self.name == "positive":
            return np.where(x > 0, x, self.x)
        if self.name == "sorted":
            return np.sort(x.reshape(self.leaf.shape), axis=self.axis).reshape(-1)
        if self.plain:
            return x
        x = self.push(self.gather(x) / self.count)
        if self.name != "spd" or not x.size:
            return x
        for _ in range(HALVINGS):
            if (np.linalg.eigvalsh(_matrices(self.leaf, x)) > 0).all():
                return x
            x = 0.5 * (x + self.x)
        return self.x


class Around(Set):
    """Vectors along an axis, each moved across one direction only.

    Of fixed length ("unit"): across itself, then brought back to its length. Of fixed sum
    ("simplex"): across (1, 1, …). The basis is that of a Householder reflection.
    """

    def __init__(self, leaf: Leaf, x: Vector) -> None:
        """The leaf and its values, flat."""
        self.name, axis = parts_of(leaf.pattern)
        self.words = WORDS[self.name]
        self.x = x
        order = np.arange(leaf.size).reshape(leaf.view_shape)
        axis = axis % len(leaf.shape)
        last = order.ndim - (2 if leaf.is_complex else 1)
        width = leaf.shape[axis] * (2 if leaf.is_complex else 1)
        self.order = np.moveaxis(order, axis, last).reshape(-1, width)
        rows = x[self.order]
        normal = rows if self.name == "unit" else np.ones_like(rows)
        self.length = np.linalg.norm(rows, axis=-1, keepdims=True)
        normal = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
        mirror = normal.copy()
        mirror[:, 0] += np.where(normal[:, 0] < 0, -1.0, 1.0)
        self.mirror = mirror / np.linalg.norm(mirror, axis=-1, keepdims=True)
        count = len(rows) * (width - 1)
        # Coordinates are counted from 1, so that their spacing is that of the entries.
        self.point = np.ones(count)
        reach = (
            0.5 * self.length
            if self.name == "unit"
            else 0.9 * rows.min(axis=-1, keepdims=True)
        )
        each = np.repeat(reach.reshape(-1), width - 1)
        self.low, self.high = 1.0 - each, 1.0 + each

    def _mirrored(self, rows: Array) -> Array:
        """H rows, row by row."""
        along = (rows * self.mirror).sum(axis=-1, keepdims=True)
        return np.asarray(rows - 2.0 * along * self.mirror)

    def _padded(self, m: Array) -> Array:
        shape = (*m.shape[:-1], self.order.shape[0], self.order.shape[1] - 1)
        rows = m.reshape(shape)
        return np.concatenate([np.zeros((*shape[:-1], 1)), rows], axis=-1)

    def _placed(self, rows: Array) -> Array:
        out = np.empty((*rows.shape[:-2], self.order.size))
        out[..., self.order] = rows
        return out

    def out(self, s: Vector) -> Vector:
        """The entries by the coordinates."""
        moved = self.x[self.order] + self._mirrored(self._padded(s - self.point))
        if self.name == "unit":
            moved *= self.length / np.linalg.norm(moved, axis=-1, keepdims=True)
        return self._placed(moved)

    def gather(self, v: Array) -> Array:
        """Each coordinate's gradient out of those of its entries."""
        rows = self._mirrored(v[..., self.order])[..., 1:]
        return rows.reshape(*v.shape[:-1], self.size)

    def push(self, u: Array) -> Array:
        """The entries' steps."""
        return self.spread(u)

    def pull(self, u: Vector) -> Vector:
        """The tangent's own coordinates: the basis is orthonormal."""
        return self.gather(u)

    def spread(self, m: Array) -> Array:
        """Each entry's share of its coordinate's gradient."""
        return self._placed(self._mirrored(self._padded(m)))

    def cover(self, b: Array) -> Array:
        """Errors of the entries."""
        rows, mirror = self._padded(b), np.abs(self.mirror)
        along = (rows * mirror).sum(axis=-1, keepdims=True)
        return self._placed(rows + 2.0 * along * mirror)

    def marks(self, code: Array) -> Array:
        """The code of each entry."""
        rows = self._padded(code)
        worst = rows.max(axis=-1, keepdims=True)
        return self._placed(np.broadcast_to(worst, rows.shape))

    def slopes(self, m: Array) -> Array:
        """None: an entry is made of several coordinates."""
        return np.full((*m.shape[:-1], self.order.size), np.nan)

    def inside(self, x: Vector) -> bool:
        """Whether the inequalities hold."""
        return self.name == "unit" or bool((x > 0).all())

    def settled(self, x: Vector) -> Vector:
        """The nearest such entries, or a point on the way to them."""
        rows = x[self.order]
        if self.name == "unit":
            size = np.linalg.norm(rows, axis=-1, keepdims=True)
            rows = np.where(size > 0, rows * self.length / size, self.x[self.order])
            return self._placed(rows)
        start = self.x[self.order]
        rows = np.where(rows > 0, rows, start)
        return self._placed(rows / rows.sum(axis=-1, keepdims=True) * start.sum(
            axis=-1, keepdims=True
        ))  # fmt: skip


def set_of(leaf: Leaf, x: Vector) -> Set:
    """The set that ``leaf`` declares, around its values ``x``."""
    if parts_of(leaf.pattern)[0] in ("unit", "simplex") and leaf.size:
        return Around(leaf, x)
    return Entries(leaf, x)


def _tied(leaf: Leaf, name: str) -> tuple[Array, Vector]:
    """For each entry its coordinate (−1: none) and the sign it takes it with."""
    own = np.arange(leaf.size)
    sign = np.ones(leaf.size)
    if name not in ("spd", "symmetric", "triangular", "upper") or not leaf.size:
        return own, sign
    index = own.reshape(leaf.view_shape).copy()
    signs = sign.reshape(leaf.view_shape)
    n = leaf.shape[-1]
    row, col = np.tril_indices(n, -1)
    if leaf.is_complex:
        index, signs = np.moveaxis(index, -1, 0), np.moveaxis(signs, -1, 0)
    if name in ("triangular", "upper"):
        gone = (col, row) if name == "triangular" else (row, col)
        index[..., gone[0], gone[1]] = -1
    else:
        index[..., col, row] = index[..., row, col]
        if leaf.is_complex:
            signs[1, ..., col, row] = -1.0
            index[1, ..., np.arange(n), np.arange(n)] = -1
    if leaf.is_complex:
        index, signs = np.moveaxis(index, 0, -1), np.moveaxis(signs, 0, -1)
    flat = index.reshape(-1)
    live = flat >= 0
    _, flat[live] = np.unique(flat[live], return_inverse=True)
    return flat, signs.reshape(-1)


def _matrices(leaf: Leaf, x: Vector) -> Array:
    """The leaf as matrices, real or complex."""
    view = x.reshape(leaf.view_shape)
    return np.asarray(view[..., 0] + 1j * view[..., 1]) if leaf.is_complex else view


def misfit(leaf: Leaf, x: Vector) -> str:
    """Why ``x`` lies outside the set that ``leaf`` declares; "" where it lies inside."""
    name, axis = parts_of(leaf.pattern)
    if not x.size or not np.isfinite(x).all():
        return ""
    low, high = float(x.min()), float(x.max())
    if low < leaf.low or high > leaf.high:
        return f"its values reach from {low:.6g} to {high:.6g}"
    if name in ("spd", "symmetric", "triangular", "upper"):
        return _misfit_square(leaf, x, name)
    if name == "positive":
        return "" if low > 0 else f"its smallest value is {low:.6g}"
    if not name:
        return ""
    if not -len(leaf.shape) <= axis < len(leaf.shape):
        return f"it has {len(leaf.shape)} axes and no axis {axis}"
    rows = np.moveaxis(_matrices(leaf, x), axis, -1)
    if name == "sorted":
        down = float(np.diff(rows, axis=-1).min(initial=0.0))
        return "" if down >= 0 else f"it falls by {-down:.6g} along axis {axis}"
    if rows.shape[-1] < 2:
        return "a single entry cannot move inside it"
    slack = 64.0 * unit(leaf.precision) * rows.shape[-1]
    length = name == "unit"
    size = np.linalg.norm(rows, axis=-1) if length else rows.sum(axis=-1)
    size = size.reshape(-1)
    off = float(size[int(np.argmax(np.abs(size - 1.0)))])
    if abs(off - 1.0) > slack:
        return f"along axis {axis} its {'length' if length else 'sum'} is {off:.6g}"
    if name == "simplex" and low <= 0:
        return f"its smallest value is {low:.6g}"
    return ""


def _misfit_square(leaf: Leaf, x: Vector, name: str) -> str:
    if len(leaf.shape) < 2 or leaf.shape[-1] != leaf.shape[-2]:
        return f"it has shape {leaf.shape}"
    a = _matrices(leaf, x)
    slack = 64.0 * unit(leaf.precision) * float(np.abs(a).max())
    if name in ("triangular", "upper"):
        other = np.triu(a, 1) if name == "triangular" else np.tril(a, -1)
        off = float(np.abs(other).max())
        side = "above" if name == "triangular" else "below"
        return "" if off == 0 else f"an entry {side} its diagonal is {off:.6g}"
    off = float(np.abs(a - np.swapaxes(a, -1, -2).conj()).max())
    if off > slack:
        return f"two mirrored entries differ by {off:.6g}"
    if name == "spd":
        least = float(np.linalg.eigvalsh(a).min())
        return "" if least > 0 else f"its smallest eigenvalue is {least:.6g}"
    return ""
