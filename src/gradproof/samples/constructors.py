"""What ``gradproof.arg`` offers, under names that hide no builtin (see arg.py)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from gradproof.errors import UsageError
from gradproof.samples.described import (
    ALIASES,
    INTEGERS,
    Described,
    Given,
    unknown,
)
from gradproof.samples.extents import Extent, parse_extent
from gradproof.samples.grammar import parse as _parse

_PLAIN = (bool, int, float, str, type(None))


def described(text: str) -> tuple[Described, ...]:
    """The inputs that ``text`` describes in the grammar."""
    return _parse(text)


def randn(*shape: Extent, dtype: str = "float64") -> Described:
    """Normal numbers; multiply and add to scale and move them."""
    return Described(dtype=_dtype(dtype), shape=_shape(shape))


def rand(
    *shape: Extent, low: float = 0.0, high: float = 1.0, dtype: str = "float64"
) -> Described:
    """Numbers uniform between ``low`` and ``high``."""
    return between(randn(*shape, dtype=dtype), low, high)


def between(inner: Described, low: float | None, high: float | None) -> Described:
    """``inner`` drawn between ``low`` and ``high`` only; None leaves a side open."""
    ends = (None if end is None else float(end) for end in (low, high))
    first, last = ends
    if first is None and last is None:
        raise UsageError("between needs a number on at least one side")
    return replace(inner, low=first, high=last)


def integers(
    *shape: Extent,
    low: Extent = 0,
    high: Extent | None = None,
    dtype: str = "int64",
) -> Described:
    """Whole numbers from ``low`` up to, not including, ``high``."""
    full = _dtype(dtype)
    if full not in INTEGERS:
        raise UsageError(f"arg.int takes an integer dtype, not {dtype}")
    if high is None and low == 0:
        return Described(dtype=full, shape=_shape(shape))
    ends = [None if end is None else _extent(end) for end in (low, high)]
    return Described(dtype=full, shape=_shape(shape), low=ends[0], high=ends[1])


def index(*shape: Extent, high: Extent, dtype: str = "int64") -> Described:
    """Indices into an axis of ``high`` entries; some occur more than once."""
    return integers(*shape, low=0, high=high, dtype=dtype)


def mask(*shape: Extent) -> Described:
    """Truth values, some of each; along the last axis never all False."""
    return Described(dtype="bool", shape=_shape(shape))


def size(extent: Extent) -> Described:
    """The number that a symbol stands for, as a plain whole number."""
    return Described(value=_extent(extent), is_size=True)


def value(thing: Any) -> Described:
    """``thing`` itself: a number, a text, None, a list of these; or a tensor of yours."""
    return Described(value=thing if _is_plain(thing) else Given(thing))


def fixed(thing: Any) -> Described:
    """An input for which no gradient is asked: a description, or a value of yours."""
    return replace(_described(thing), fixed=True)


def within(thing: Any, low: float | None, high: float | None) -> Described:
    """An input of a function that exists only between ``low`` and ``high``."""
    floor = -math.inf if low is None else float(low)
    ceiling = math.inf if high is None else float(high)
    return replace(_described(thing), floor=floor, ceiling=ceiling)


def named(thing: Any, name: str) -> Described:
    """An input under a name, passed by position."""
    return _described(thing).named(name)


def keyword(thing: Any, name: str) -> Described:
    """An input passed by keyword."""
    return _described(thing).named(name, keyword=True)


def spd(*shape: Any, dtype: str = "float64") -> Described:
    """Symmetric positive definite matrices (Hermitian where complex)."""
    return _patterned("spd", shape, dtype)


def symmetric(*shape: Any, dtype: str = "float64") -> Described:
    """Symmetric matrices."""
    return _patterned("symmetric", shape, dtype)


def triangular(*shape: Any, dtype: str = "float64") -> Described:
    """Lower triangular matrices with a diagonal off 0."""
    return _patterned("triangular", shape, dtype)


def upper(*shape: Any, dtype: str = "float64") -> Described:
    """Upper triangular matrices with a diagonal off 0."""
    return _patterned("upper", shape, dtype)


def positive(*shape: Any, dtype: str = "float64") -> Described:
    """Numbers greater than 0."""
    return _patterned("positive", shape, dtype)


def unit(*shape: Any, axis: int = -1, dtype: str = "float64") -> Described:
    """Vectors of length 1 along ``axis``."""
    return _patterned("unit", shape, dtype, axis)


def simplex(*shape: Any, axis: int = -1, dtype: str = "float64") -> Described:
    """Positive numbers that add up to 1 along ``axis``."""
    return _patterned("simplex", shape, dtype, axis)


def increasing(*shape: Any, axis: int = -1, dtype: str = "float64") -> Described:
    """Numbers that increase along ``axis``."""
    return _patterned("sorted", shape, dtype, axis)


def permutation(*shape: Any, axis: int = -1, dtype: str = "int64") -> Described:
    """Each whole number below the extent of ``axis`` once along it."""
    return _patterned("permutation", shape, dtype, axis)


def _patterned(
    name: str, shape: tuple[Any, ...], dtype: str, axis: int = -1
) -> Described:
    """Of a shape, or of one description or value that is given instead of it."""
    pattern = name if axis == -1 else f"{name}[{axis}]"
    whole = [isinstance(extent, (int, str)) for extent in shape]
    if len(shape) == 1 and not whole[0]:
        return replace(_described(shape[0]), pattern=pattern)
    return Described(dtype=_dtype(dtype), shape=_shape(shape), pattern=pattern)


def _described(thing: Any) -> Described:
    return thing if isinstance(thing, Described) else value(thing)


def _is_plain(thing: Any) -> bool:
    if isinstance(thing, (list, tuple)):
        return all(_is_plain(item) for item in thing)
    return type(thing) in _PLAIN


def _dtype(name: Any) -> str:
    text = str(name).removeprefix("torch.")
    if text not in ALIASES:
        raise UsageError(unknown("dtype", text, tuple(ALIASES)))
    return ALIASES[text]


def _shape(shape: tuple[Any, ...]) -> tuple[Extent, ...]:
    return tuple(_extent(extent) for extent in shape)


def _extent(extent: Any) -> Extent:
    if isinstance(extent, str):
        return parse_extent(extent)
    if isinstance(extent, int) and not isinstance(extent, bool):
        return extent
    raise UsageError(f"an extent is a whole number or a symbol, not {extent!r}")
