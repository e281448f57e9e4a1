"""Numbers for described inputs: readable, exact in their dtype, off the usual kinks.

A float is an odd multiple of a power of two, at most 2⁻⁶. So it is never 0, nor a whole
number, nor a half or a quarter, which is where people's functions have their corners; it
prints in a few digits; and float32, float16 and bfloat16 hold it exactly.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gradproof.errors import UsageError
from gradproof.samples.constructors import value
from gradproof.samples.described import (
    COMPLEX,
    FLOATING,
    INTEGERS,
    Described,
    Given,
    pattern_parts,
)
from gradproof.samples.extents import evaluate, fill
from gradproof.space import Leaf, Space, largest

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_COARSEST = -6  # log2 of the widest grid
_MARGIN = (
    0.125  # of the scale or of the domain: how far values keep from 0 and from ends
)
_ROUNDS = 20  # redraws of values that came out twice
_FINEST = 2.0**-900  # a spread below this leaves no room for a grid of its own
_MANY = 1 << 16  # beyond this many entries, twins are let be
_LARGEST = 1 << 28  # entries of one input; more is a slip of the pen
_INTEGERS_BELOW = (
    3  # range of integers where none is given: safe as an index of an axis
)


@dataclass(frozen=True, eq=False)
class Drawn:
    """One input, drawn.

    ``array`` holds a tensor's numbers (float64, complex128, int64 or bool, each exact in
    ``dtype``); it is None for a plain value or a caller's own object, which is ``value``.
    ``fixed``: no gradient is asked. ``low`` and ``high`` bound the function's domain.
    """

    name: str
    array: Array | None
    dtype: str = ""
    fixed: bool = False
    low: float = -math.inf
    high: float = math.inf
    keyword: bool = False
    pattern: str = ""
    value: Any = None


def draw(described: Sequence[Any], sizes: Mapping[str, int], seed: int) -> list[Drawn]:
    """One Drawn for each description, the same for the same seed, whatever the others.

    What is no description (a number, a tensor of the caller's) stands for itself.
    Symbols without a size get one that no other symbol has. Raises UsageError for sizes
    that fit nothing, and for a range that holds no number of the dtype.
    """
    if seed < 0:
        raise UsageError(f"a seed is a whole number from 0 on, not {seed}")
    described = [d if isinstance(d, Described) else value(d) for d in described]
    wanted = [symbol for d in described for symbol in d.symbols]
    filled = fill(wanted, sizes)
    return [_draw_one(d, i, filled, seed) for i, d in enumerate(described)]


def _draw_one(
    d: Described, position: int, sizes: Mapping[str, int], seed: int
) -> Drawn:
    label = d.name or f"input {position}"
    common: dict[str, Any] = {
        "name": d.name, "fixed": d.fixed, "low": d.floor, "high": d.ceiling,
        "keyword": d.keyword, "pattern": "" if d.dtype in INTEGERS else d.pattern,
    }  # fmt: skip
    if d.is_size:
        return Drawn(array=None, value=evaluate(d.value, sizes), **common)
    if not d.is_tensor:
        own = d.value.value if isinstance(d.value, Given) else d.value
        return Drawn(array=None, value=own, **common)
    shape = tuple(evaluate(extent, sizes) for extent in d.shape)
    if any(extent < 0 for extent in shape):
        raise UsageError(f"{label}: {d.body()} would have the shape {list(shape)}")
    if math.prod(shape) > _LARGEST:
        raise UsageError(
            f"{label}: {math.prod(shape)} entries of shape {list(shape)} are too many"
            f" to draw (at most {_LARGEST})"
        )
    rng = np.random.default_rng([seed, zlib.crc32(label.encode())])
    try:
        array = _array(d, shape, sizes, rng)
    except UsageError as error:
        raise UsageError(f"{label}: {error}") from None
    return Drawn(array=array, dtype=d.dtype, **common)


def _array(
    d: Described,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    rng: np.random.Generator,
) -> Array:
    if d.dtype == "bool":
        return _mask(shape, rng)
    if d.dtype in INTEGERS and d.pattern:
        return _permutation(shape, pattern_parts(d.pattern)[1], rng)
    if d.dtype in INTEGERS:
        low = 0 if d.low is None else evaluate(_extent(d.low), sizes)
        high = low + _INTEGERS_BELOW
        if d.high is not None:
            high = evaluate(_extent(d.high), sizes)
        return _integers(shape, low, high, d, rng)
    if d.dtype in COMPLEX:
        half = "float32" if d.dtype == "complex64" else "float64"
        name = pattern_parts(d.pattern)[0]
        real = _floats(d, half, shape, rng)
        imag = _floats(d, half, shape, rng) - d.offset
        z = real + 1j * imag
        return _shaped(z, name, d, half, rng) if name else z
    values = _floats(d, d.dtype, shape, rng)
    return _shaped(values, pattern_parts(d.pattern)[0], d, d.dtype, rng)


def _extent(end: float | int | str) -> int | str:
    return end if isinstance(end, str) else int(end)


def _mask(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """About half True; one True in each row of the last axis, and some False at all."""
    out = np.asarray(rng.random(shape) < 0.5)
    if out.size < 2:
        return np.ones(shape, dtype=bool)
    rows = out.reshape(-1, shape[-1]) if shape[-1] > 1 else out.reshape(1, -1)
    spare = rng.integers(0, rows.shape[1], rows.shape[0])
    rows[np.arange(rows.shape[0]), spare] = True
    if rows.all():
        rows[0, (spare[0] + 1) % rows.shape[1]] = False
    return rows.reshape(shape)


def _integers(
    shape: tuple[int, ...], low: int, high: int, d: Described, rng: np.random.Generator
) -> Array:
    """Uniform in [low, high). The lowest occurs, and another; one twice where three fit.

    So an index repeats, and a label that is to be ignored (the lowest) is there beside
    one that is not.
    """
    if high <= low:
        raise UsageError(f"the range {low}..{high} is empty")
    bits = 8 * np.dtype(d.dtype).itemsize
    floor = 0 if d.dtype == "uint8" else -(2 ** (bits - 1))
    if low < floor or high > floor + 2**bits:
        raise UsageError(f"{d.dtype} does not reach from {low} to {high}")
    flat = rng.integers(low, high, shape, dtype=np.int64).reshape(-1)
    if flat.size > 1 and high - low > 1:
        first, second, *third = rng.permutation(flat.size)[:3]
        flat[first], flat[second] = low, rng.integers(low + 1, high)
        flat[third] = flat[second]
    return flat.reshape(shape)


def _permutation(shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> Array:
    """Along ``axis`` one cycle through all: of three or more never its own inverse."""
    order = rng.permuted(np.indices(shape)[axis], axis=axis)
    out = np.empty(shape, dtype=np.int64)
    np.put_along_axis(out, order, np.roll(order, 1, axis=axis), axis=axis)
    return out


def _floats(
    d: Described, precision: str, shape: tuple[int, ...], rng: np.random.Generator
) -> Floats:
    """Distinct readable numbers in the range and the domain of ``d``."""
    propose, low, high, spread = _proposal(d, precision)
    n = math.prod(shape)
    if spread < _FINEST:
        raise UsageError(f"the values of {d.body()} lie too close together")
    grid = _grid(spread, n, precision)

    def fresh(count: int) -> Floats:
        return _odd(propose(rng, count), grid, low, high, precision)

    out = fresh(n)
    for _ in range(_ROUNDS if 1 < n <= _MANY else 0):
        _, first = np.unique(out, return_index=True)
        twins = np.ones(n, dtype=bool)
        twins[first] = False
        if not twins.any():
            break
        out[twins] = fresh(int(twins.sum()))
    if n > 1 and (out == out[0]).all():
        raise UsageError(f"{d.dtype} holds one number only in the range of {d.body()}")
    return out.reshape(shape)


_Propose: TypeAlias = Callable[[np.random.Generator, int], Floats]


def _proposal(d: Described, precision: str) -> tuple[_Propose, float, float, float]:
    """How to draw, the open interval to stay in, and the spread of the values."""
    low = max(-math.inf if d.low is None else float(d.low), d.floor)
    high = min(math.inf if d.high is None else float(d.high), d.ceiling)
    if not low < high:
        raise UsageError(f"the range of {d.body()} lies outside its domain")
    top = largest(precision)
    ends = [abs(end) for end in (low, high) if math.isfinite(end)]
    if max([*ends, abs(d.offset) + 4 * abs(d.scale)]) > top:
        raise UsageError(f"{d.body()} goes beyond {top:.3g}, where {precision} ends")
    scale, offset = abs(d.scale), d.offset
    if math.isfinite(low) and math.isfinite(high):
        span = high - low
        edge = _MARGIN * span if math.isfinite(d.floor + d.ceiling) else 0.0
        bottom, width = low + edge, span - 2 * edge
        if scale == 1 and offset == 0:
            return (lambda r, n: bottom + width * r.random(n)), low, high, span / 4

        def held(r: np.random.Generator, n: int) -> Floats:
            normal = offset + d.scale * r.standard_normal(n)
            inside = (normal > bottom) & (normal < bottom + width)
            return np.where(inside, normal, bottom + width * r.random(n))

        return held, low, high, min(scale, span / 4)
    if math.isfinite(low) or math.isfinite(high):
        end, sign = (low, 1.0) if math.isfinite(low) else (high, -1.0)

        def folded(r: np.random.Generator, n: int) -> Floats:
            centre = offset if sign * (offset - end) > 0 else end
            far = np.abs(centre - end + scale * r.standard_normal(n))
            return np.asarray(end + sign * np.maximum(far, _MARGIN * scale))

        return folded, low, high, scale

    # A scale that the dtype cannot show beside the offset is widened to what it can.
    scale = max(scale, 8 * abs(offset) * 2.0 ** (1 - _BITS[precision]))

    def normal(r: np.random.Generator, n: int) -> Floats:
        values = offset + scale * np.clip(r.standard_normal(n), -3.5, 3.5)
        small = np.abs(values) < _MARGIN * scale
        return np.where(small, values + np.copysign(_MARGIN * scale, values), values)

    return normal, low, high, scale


def _grid(spread: float, n: int, precision: str) -> float:
    """A power of two, fine enough for ``n`` distinct numbers where the dtype has them."""
    finer = max(0, math.ceil(math.log2(max(n, 1))) - 4)
    finest = _BITS[precision] - 2
    return 2.0 ** (
        min(0, math.floor(math.log2(spread))) - min(-_COARSEST + finer, finest)
    )


def _odd(v: Floats, grid: float, low: float, high: float, precision: str) -> Floats:
    """Odd multiples of ``grid`` (or of the dtype's spacing) near ``v``, in (low, high)."""
    space = Space.of([Leaf("", v.shape, precision)])
    step = np.maximum(grid, space.spacing(np.where(v == 0, grid, v)))
    out = np.asarray((2 * np.floor(v / (2 * step)) + 1) * step)
    for _ in range(4):  # near an end, the next odd multiple inwards
        out = np.where(out <= low, out + 2 * step, out)
        out = np.where(out >= high, out - 2 * step, out)
    out = space.snap(out)
    if not ((out > low) & (out < high)).all():
        raise UsageError(f"{precision} holds too few numbers between {low} and {high}")
    return out


def _shaped(
    v: Array, name: str, d: Described, precision: str, rng: np.random.Generator
) -> Array:
    """``v`` brought into the set that the pattern names; ``v`` itself without one."""
    axis = pattern_parts(d.pattern)[1]
    if not name or v.size == 0:
        return v
    if name == "positive":
        return np.abs(v)
    if name == "sorted":
        return np.sort(v, axis=axis)
    if name == "unit":
        length = np.sqrt((np.abs(v) ** 2).sum(axis=axis, keepdims=True))
        return _snapped(v / length, precision)
    if name == "simplex":
        return _simplex(v.shape, axis, rng)
    diagonal = np.eye(v.shape[-1], dtype=bool)
    if name in ("triangular", "upper"):
        away = np.where(diagonal, np.abs(v.real) + abs(d.scale) / 2, v)
        part = np.tril(away) if name == "triangular" else np.triu(away)
        return _snapped(part, precision)
    lower = np.tril(v, -1)
    if name == "symmetric":
        return lower + np.swapaxes(lower, -1, -2).conj() + np.where(diagonal, v.real, 0)
    return _spd(v / abs(d.scale), precision, abs(d.scale))


def _spd(v: Array, precision: str, scale: float) -> Array:
    """V Vᴴ / n + I / 2, times ``scale``: eigenvalues at least about ``scale`` / 2."""
    n = v.shape[-1]
    out = v @ np.swapaxes(v, -1, -2).conj() / n + 0.5 * np.eye(n)
    lower = np.tril(_snapped(scale * out, precision))
    return lower + np.swapaxes(np.tril(lower, -1), -1, -2).conj()


def _simplex(shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> Floats:
    """Counts over a power of two that add up to it: dyadic numbers of sum exactly 1."""
    n = shape[axis]
    total = 2 ** max(6, math.ceil(math.log2(n)) + 2)
    rest = shape[:axis] + shape[axis:][1:]
    uneven = rng.permutation(np.arange(1.0, n + 1))
    counts = rng.multinomial(total - n, uneven / uneven.sum(), size=rest) + 1
    return np.asarray(np.moveaxis(counts, -1, axis) / total, dtype=np.float64)


def _snapped(v: Array, precision: str) -> Array:
    """``v`` rounded to numbers that the precision holds; real and imaginary apart."""
    if np.iscomplexobj(v):
        return _snapped(v.real, precision) + 1j * _snapped(v.imag, precision)
    space = Space.of([Leaf("", v.shape, precision)])
    return space.snap(np.asarray(v).reshape(-1)).reshape(v.shape)


assert set(_BITS) == FLOATING
