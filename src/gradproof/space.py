"""Vector spaces: named leaves of a structure, seen as one flat real vector.

A complex leaf takes two real coordinates per element (real, imaginary, interleaved), so
that the pairing <a, b> = sum(a * b) is Re(a^H b), the pairing of PyTorch's gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Mask: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]

# Significand bits (the hidden one counted) and smallest normal exponent, by precision.
_FORMATS = {
    "float64": (53, -1022, 1.7976931348623157e308),
    "float32": (24, -126, 3.4028234663852886e38),
    "float16": (11, -14, 65504.0),
    "bfloat16": (8, -126, 3.3895313892515355e38),
}

# Magnitudes of a drawn cotangent: short to print, exact in bfloat16, and never 0 or ±1,
# the values that hide a dropped or a doubled factor.
MAGNITUDES = np.array([0.25, 0.5, 0.75, 1.25, 1.5, 1.75])


def unit(precision: str) -> float:
    """Half the distance from 1 to the next number: the unit roundoff of a precision."""
    return float(2.0 ** -_FORMATS[precision][0])


def underflow(precision: str) -> float:
    """A size below which products lose digits: the smallest normal number.

    For float16, whose smallest normal number is as large as many gradients, a few of the
    steps between its subnormal numbers.
    """
    bits, least, _ = _FORMATS[precision]
    return float(2.0 ** (least - bits + 5 if precision == "float16" else least))


def largest(precision: str) -> float:
    """The largest finite number of a precision."""
    return _FORMATS[precision][2]


@dataclass(frozen=True)
class Leaf:
    """One array of a structure.

    ``path`` is how a reader names it ("x", "x[0]", "weight", "cfg['w']"). ``precision``
    is one of float64, float32, float16, bfloat16 (of the parts, where ``is_complex``).
    ``start`` is its offset in the flat vector. ``low``/``high`` bound the values at
    which the function may be asked. ``pattern`` names the set that the values lie in
    ("spd", "unit[0]"; see ``samples.described.PATTERNS``): only points of the set may be
    asked, and derivatives exist along it only.
    """

    path: str
    shape: tuple[int, ...]
    precision: str = "float64"
    is_complex: bool = False
    start: int = 0
    low: float = -np.inf
    high: float = np.inf
    pattern: str = ""

    @cached_property
    def size(self) -> int:
        """Number of real coordinates."""
        n = 1
        for extent in self.shape:
            n *= extent
        return 2 * n if self.is_complex else n

    @property
    def dtype(self) -> str:
        """The framework's usual name, e.g. float32 or complex64."""
        if not self.is_complex:
            return self.precision
        return {"float64": "complex128", "float32": "complex64"}.get(
            self.precision, "complex32"
        )

    @cached_property
    def slice(self) -> slice:
        """Where the leaf lies in the flat vector."""
        return slice(self.start, self.start + self.size)

    @cached_property
    def view_shape(self) -> tuple[int, ...]:
        """Shape of its view on the flat vector: a last axis of 2 where complex."""
        return (*self.shape, 2) if self.is_complex else self.shape


@dataclass(frozen=True)
class Place:
    """One coordinate of a space, by name."""

    path: str
    index: tuple[int, ...]
    part: str = ""  # "", "real" or "imag"

    def __str__(self) -> str:
        """As in ``x[2, 0]`` or ``z[1].imag``."""
        text = self.path
        if self.index:
            text += "[" + ", ".join(map(str, self.index)) + "]"
        return text + (f".{self.part}" if self.part else "")


@dataclass(frozen=True)
class Space:
    """A product of leaves with the pairing <a, b> = sum(a * b)."""

    leaves: tuple[Leaf, ...] = field(default=())

    @classmethod
    def of(cls, leaves: list[Leaf] | tuple[Leaf, ...]) -> Space:
        """The product of ``leaves``, with their offsets filled in."""
        out: list[Leaf] = []
        start = 0
        for leaf in leaves:
            placed = replace(leaf, start=start)
            out.append(placed)
            start += placed.size
        return cls(tuple(out))

    @cached_property
    def size(self) -> int:
        """Number of real coordinates."""
        return sum(leaf.size for leaf in self.leaves)

    @cached_property
    def unit(self) -> float:
        """The coarsest unit roundoff among the leaves."""
        return max((unit(leaf.precision) for leaf in self.leaves), default=2.0**-53)

    def __iter__(self) -> Iterator[Leaf]:
        """The leaves, in order."""
        return iter(self.leaves)

    def __len__(self) -> int:
        """How many leaves."""
        return len(self.leaves)

    def view(self, v: np.ndarray[Any, Any], leaf: Leaf) -> np.ndarray[Any, Any]:
        """The part of ``v`` that belongs to ``leaf``, in its view shape (no copy)."""
        return v[leaf.slice].reshape(leaf.view_shape)

    def leaf_of(self, i: int) -> Leaf:
        """The leaf that coordinate ``i`` belongs to."""
        for leaf in self.leaves:
            if leaf.start <= i < leaf.start + leaf.size:
                return leaf
        raise IndexError(f"coordinate {i} of a space of size {self.size}")

    def place(self, i: int) -> Place:
        """The name of coordinate ``i``."""
        leaf = self.leaf_of(i)
        index = tuple(int(k) for k in np.unravel_index(i - leaf.start, leaf.view_shape))
        if leaf.is_complex:
            return Place(leaf.path, index[:-1], ("real", "imag")[index[-1]])
        return Place(leaf.path, index)

    def units(self) -> Vector:
        """Unit roundoff of each coordinate."""
        return self._each(lambda leaf: unit(leaf.precision))

    def lows(self) -> Vector:
        """Lowest value at which each coordinate may be asked."""
        return self._each(lambda leaf: leaf.low)

    def highs(self) -> Vector:
        """Highest value at which each coordinate may be asked."""
        return self._each(lambda leaf: leaf.high)

    def _each(self, number: Callable[[Leaf], float]) -> Vector:
        out = np.empty(self.size)
        for leaf in self.leaves:
            out[leaf.slice] = number(leaf)
        return out

    def spacing(self, v: Vector) -> Vector:
        """Distance from each |v_i| to the next number of its precision."""
        out = np.empty(self.size)
        for leaf in self.leaves:
            bits, lowest, _ = _FORMATS[leaf.precision]
            power = _power_below(v[leaf.slice])
            np.maximum(power, 2.0**lowest, out=power)
            np.multiply(power, 2.0 ** (1 - bits), out=out[leaf.slice])
        return out

    def snap(self, v: Vector) -> Vector:
        """``v`` rounded to numbers that each leaf's precision can hold."""
        out = np.array(v, dtype=np.float64)
        for leaf in self.leaves:
            if leaf.precision == "float64":
                continue
            part = out[leaf.slice]
            with np.errstate(over="ignore", invalid="ignore"):
                if leaf.precision == "float32":
                    out[leaf.slice] = part.astype(np.float32)
                elif leaf.precision == "float16":
                    out[leaf.slice] = part.astype(np.float16)
                else:
                    out[leaf.slice] = _to_bfloat16(part)
        return out

    def draw(self, rng: np.random.Generator) -> Vector:
        """A random vector with entries ±{0.25, 0.5, 0.75, 1.25, 1.5, 1.75}."""
        size = MAGNITUDES[rng.integers(0, len(MAGNITUDES), self.size)]
        return np.where(rng.random(self.size) < 0.5, -size, size)

    def with_precision(self, precision: str) -> Space:
        """The same leaves, held in another precision."""
        return Space.of([replace(a, precision=precision) for a in self.leaves])


def _power_below(v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The largest power of two that is not above each |v|; 1/2 for 0 and what is not finite."""
    bits = np.ascontiguousarray(v, dtype=np.float64).view(np.int64) & 0x7FF0000000000000
    power: np.ndarray[Any, Any] = bits.view(np.float64)
    power[(v == 0) | ~np.isfinite(power)] = 0.5
    return power


def _to_bfloat16(v: Vector) -> Vector:
    """Round to nearest even at 8 significand bits, as the hardware does."""
    bits = v.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    out = rounded.astype(np.uint32).view(np.float32).astype(np.float64)
    return np.where(np.isfinite(v), out, v)
