"""One described input: a frozen record, the same from Python, command line and file."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from gradproof.errors import UsageError
from gradproof.samples.extents import Extent, symbols

# Each dtype by its full name, and the names that may stand for it; the first is printed.
DTYPES = {
    "float64": ("f64", "double"),
    "float32": ("f32",),
    "float16": ("f16", "half"),
    "bfloat16": ("bf16",),
    "complex128": ("c128",),
    "complex64": ("c64",),
    "int64": ("int", "i64", "long"),
    "int32": ("i32",),
    "int16": ("i16", "short"),
    "int8": ("i8",),
    "uint8": ("u8",),
    "bool": ("bool",),
}
ALIASES = {name: full for full, names in DTYPES.items() for name in (full, *names)}
INTEGERS = frozenset({"int64", "int32", "int16", "int8", "uint8"})
COMPLEX = frozenset({"complex128", "complex64"})
FLOATING = frozenset({"float64", "float32", "float16", "bfloat16"})

# A set that the values lie in, and the ranks and transformations that leave it alone.
PATTERNS = {
    "spd": "symmetric positive definite (Hermitian where complex), last two axes",
    "symmetric": "symmetric, last two axes",
    "triangular": "lower triangular, last two axes",
    "upper": "upper triangular, last two axes",
    "unit": "of length 1 along an axis",
    "simplex": "positive and of sum 1 along an axis",
    "sorted": "increasing along an axis",
    "positive": "greater than 0",
    "permutation": "each whole number below the extent once along an axis",
}
SQUARE = frozenset({"spd", "symmetric", "triangular", "upper"})
ALONG = frozenset({"unit", "simplex", "sorted", "permutation"})


class Given:
    """A caller's own object (a tensor, an array), handed through untouched."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Hold ``value``; two are equal only when they are the same."""
        self.value = value

    def __repr__(self) -> str:
        """The kind of thing only: a tensor's numbers are no description."""
        return f"<given {type(self.value).__name__}>"


@dataclass(frozen=True)
class Described:
    """What one input is to be; ``str`` gives it back in the grammar.

    With a ``dtype`` it is a tensor of ``shape`` drawn as ``scale``·normal + ``offset``;
    a range [``low``, ``high``) makes integers of it, and floats uniform in it (or the
    scaled normal held within it, where a scale or an offset is given). Without a
    ``dtype`` it is ``value``: a plain value, a Given, or with ``is_size`` the number
    that an extent stands for. ``floor`` and ``ceiling`` bound the domain: there the
    function may not be asked beyond. ``pattern`` is one of PATTERNS, with the axis in
    brackets where it is not the last: "unit[0]".
    """

    name: str = ""
    dtype: str = ""
    shape: tuple[Extent, ...] = ()
    scale: float = 1.0
    offset: float = 0.0
    low: float | Extent | None = None
    high: float | Extent | None = None
    floor: float = -math.inf
    ceiling: float = math.inf
    pattern: str = ""
    fixed: bool = False
    keyword: bool = False
    value: Any = None
    is_size: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn, in a sentence."""
        if self.dtype:
            _validate(self)

    @property
    def is_tensor(self) -> bool:
        """Whether numbers are drawn for it."""
        return bool(self.dtype)

    @property
    def is_given(self) -> bool:
        """Whether it is a caller's own object."""
        return isinstance(self.value, Given)

    @property
    def is_uniform(self) -> bool:
        """Whether floats are drawn uniformly from a range, with no normal behind."""
        bare = self.scale == 1 and self.offset == 0
        return bare and self.low is not None and self.high is not None

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of its shape and its range, in order."""
        ends = () if self.dtype in FLOATING else (self.low, self.high)
        found: list[Extent] = list(self.shape)
        found += [end for end in ends if isinstance(end, str)]
        if self.is_size:
            found.append(self.value)
        return symbols(found)

    def named(self, name: str, *, keyword: bool = False) -> Described:
        """The same input under a name; by keyword where ``keyword``."""
        return replace(self, name=name, keyword=keyword)

    def __mul__(self, factor: float) -> Described:
        """Values multiplied by ``factor``."""
        self._need_floats("a scale")
        k = float(factor)
        if k == 0 or not math.isfinite(k):
            raise UsageError(f"a scale is a number other than 0, not {factor!r}")
        out = replace(self, scale=self.scale * k, offset=self.offset * k)
        if self.low is not None or self.high is not None:
            ends = [None if e is None else float(e) * k for e in (self.low, self.high)]
            low, high = ends if k > 0 else reversed(ends)
            scale = 1.0 if self.is_uniform else self.scale * k
            out = replace(out, scale=scale, low=low, high=high)
        floor, ceiling = sorted((self.floor * k, self.ceiling * k))
        return replace(out, floor=floor, ceiling=ceiling)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Described:
        """Values divided by ``divisor``."""
        if divisor == 0:
            raise UsageError("a scale is a number other than 0, not 1/0")
        return self * (1.0 / divisor)

    def __add__(self, term: float) -> Described:
        """Values moved by ``term``."""
        self._need_floats("an offset")
        c = float(term)
        if not math.isfinite(c):
            raise UsageError(f"an offset is a finite number, not {term!r}")
        offset = 0.0 if self.is_uniform else self.offset + c
        low, high = (None if e is None else float(e) + c for e in (self.low, self.high))
        floor, ceiling = self.floor + c, self.ceiling + c
        return replace(
            self, offset=offset, low=low, high=high, floor=floor, ceiling=ceiling
        )

    __radd__ = __add__

    def __sub__(self, term: float) -> Described:
        """Values moved by minus ``term``."""
        return self + (-term)

    def __neg__(self) -> Described:
        """Values with the other sign."""
        return self * -1.0

    def __str__(self) -> str:
        """The description in the grammar, with its name where it has one."""
        head = self.name + ("=" if self.keyword else ": ") if self.name else ""
        return head + self.body()

    def body(self) -> str:
        """The description in the grammar, without its name."""
        fixed = "fixed " if self.fixed else ""
        if self.is_size:
            return f"size {self.value}"
        if not self.dtype:
            return fixed + (repr(self.value) if self.is_given else literal(self.value))
        out = fixed + DTYPES[self.dtype][0]
        out += "[" + ", ".join(map(str, self.shape)) + "]"
        if self.scale != 1:
            out += f"*{_short(self.scale)}"
        if self.offset != 0:
            sign = "-" if self.offset < 0 else "+"
            out += f" {sign} {_short(abs(self.offset))}"
        if self.pattern:
            out += f" {self.pattern}"
        if self.low is not None or self.high is not None:
            out += f" in {written_end(self.low)}..{written_end(self.high)}"
        if math.isfinite(self.floor) or math.isfinite(self.ceiling):
            ends = [e if math.isfinite(e) else None for e in (self.floor, self.ceiling)]
            out += f" within {written_end(ends[0])}..{written_end(ends[1])}"
        return out

    def _need_floats(self, what: str) -> None:
        if self.dtype not in FLOATING and self.dtype not in COMPLEX:
            kind = self.dtype or "a plain value"
            raise UsageError(f"{what} goes with floating-point inputs, not with {kind}")


def literal(value: Any) -> str:
    """A plain value as the grammar writes it."""
    if isinstance(value, str):
        marks = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return '"' + "".join(marks.get(c, c) for c in value) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def pattern_parts(pattern: str) -> tuple[str, int]:
    """Name and axis of a pattern: ("unit", -1) for "unit", ("unit", 0) for "unit[0]"."""
    name, _, axis = pattern.partition("[")
    return name, int(axis.rstrip("]")) if axis else -1


def _short(x: float) -> str:
    return repr(int(x)) if x == int(x) and abs(x) < 1e6 else repr(x)


def written_end(number: float | Extent | None) -> str:
    """One end of a range as the grammar writes it; "" for an open one."""
    if number is None:
        return ""
    return _short(number) if isinstance(number, float) else str(number)


def _validate(d: Described) -> None:
    if d.dtype not in DTYPES:
        raise UsageError(unknown("dtype", d.dtype, tuple(ALIASES)))
    real = d.dtype in FLOATING
    for end in (d.low, d.high):
        if isinstance(end, str) and d.dtype not in INTEGERS:
            raise UsageError(f"a range up to the size {end} goes with integers only")
        if isinstance(end, float) and d.dtype in INTEGERS:
            raise UsageError(f"a range of integers ends at a whole number, not {end}")
    if not real and d.dtype not in INTEGERS and (d.low, d.high) != (None, None):
        raise UsageError(f"a range has no meaning for {d.dtype}")
    low, high = ((math.nan if isinstance(e, str) else e) for e in (d.low, d.high))
    if low is not None and high is not None and low >= high:
        raise UsageError(
            f"the range {written_end(d.low)}..{written_end(d.high)} is empty"
        )
    if not d.floor < d.ceiling:
        raise UsageError(
            f"the domain {written_end(d.floor)}..{written_end(d.ceiling)} is empty"
        )
    if not real and (math.isfinite(d.floor) or math.isfinite(d.ceiling)):
        raise UsageError(f"a domain (within) goes with real inputs, not with {d.dtype}")
    if d.pattern:
        _validate_pattern(d)


def _validate_pattern(d: Described) -> None:
    name, _ = pattern_parts(d.pattern)
    if name not in PATTERNS:
        raise UsageError(unknown("pattern", name, tuple(PATTERNS)))
    also_complex = d.dtype in COMPLEX and (name in SQUARE or name == "unit")
    whole = d.dtype in INTEGERS and name == "permutation"
    real = d.dtype in FLOATING and name != "permutation"
    if not real and not whole and not also_complex:
        raise UsageError(f"{name} has no meaning for {d.dtype}")
    if name in SQUARE and len(d.shape) < 2:
        raise UsageError(
            f"{name} needs a matrix: at least two axes, the last two alike"
        )
    if name in SQUARE and d.shape[-1] != d.shape[-2]:
        raise UsageError(
            f"{name} needs a square matrix, not {d.shape[-2]} by {d.shape[-1]}"
        )
    if name in ALONG and not d.shape:
        raise UsageError(f"{name} needs at least one axis")
    axis = pattern_parts(d.pattern)[1]
    if name in ALONG and not -len(d.shape) <= axis < len(d.shape):
        raise UsageError(f"{d.pattern} names axis {axis} of {len(d.shape)}")
    if d.low is not None or d.high is not None:
        raise UsageError(f"{name} and a range do not go together")
    moved = d.offset != 0 and name != "sorted" and name != "symmetric"
    if moved or (name in ("unit", "simplex") and d.scale != 1):
        raise UsageError(f"a scale or an offset would leave the set of {name} inputs")
    if d.scale < 0 and name in ("spd", "positive", "sorted"):
        raise UsageError(f"a negative scale would leave the set of {name} inputs")


def unknown(what: str, got: str, known: tuple[str, ...]) -> str:
    """A sentence about a name that is not known, with the nearest that is."""
    near = nearest(got, known)
    hint = f"; did you mean {near}?" if near else f"; known are {', '.join(known)}"
    return f"unknown {what} {got!r}{hint}"


def nearest(got: str, known: tuple[str, ...]) -> str:
    """The name in ``known`` most like ``got``, or "" when none is like it."""
    from difflib import get_close_matches

    lowered = {name.lower(): name for name in known}
    found = get_close_matches(got.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[found[0]] if found else ""
