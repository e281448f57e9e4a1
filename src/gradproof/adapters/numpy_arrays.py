"""Between flat float64 vectors and NumPy's arrays; arguments and their order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradproof.adapters import trees
from gradproof.adapters.describe import bounds_of, is_fixed, pattern_of
from gradproof.errors import UsageError
from gradproof.space import Leaf, Space, Vector

Array = np.ndarray[Any, Any]
Tree = tuple[tuple[Any, ...], dict[str, Any]]  # positional and keyword arguments


def is_floating(thing: Any) -> bool:
    """Whether ``thing`` is an array or NumPy scalar of real or complex numbers."""
    return isinstance(thing, (np.ndarray, np.floating, np.complexfloating)) and (
        thing.dtype.kind in "fc"
    )


def is_number(thing: Any) -> bool:
    """Whether ``thing`` is that, or a plain float or complex number."""
    return is_floating(thing) or isinstance(thing, (float, complex))


def _precision(dtype: np.dtype[Any]) -> str:
    real = np.zeros(0, dtype).real.dtype.itemsize
    return {2: "float16", 4: "float32"}.get(real, "float64")


@dataclass(frozen=True)
class Spec:
    """How a leaf is made: ``scalar`` where the user gave a plain or NumPy number."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "C"
    scalar: Any = None
    bounds: tuple[float, float] = (-np.inf, np.inf)
    pattern: str = ""

    @classmethod
    def of(cls, thing: Any) -> Spec:
        """The specification of ``thing``."""
        if not isinstance(thing, np.ndarray):
            return cls((), np.asarray(thing).dtype, scalar=type(thing))
        fortran = thing.flags.f_contiguous and not thing.flags.c_contiguous
        order = "F" if fortran else "C"
        return cls(
            thing.shape, thing.dtype, order,
            bounds=bounds_of(thing), pattern=pattern_of(thing),
        )  # fmt: skip

    def leaf(self, path: str) -> Leaf:
        """The leaf of a space that it stands for."""
        precision, is_complex = _precision(self.dtype), self.dtype.kind == "c"
        low, high = self.bounds
        return Leaf(
            path, self.shape, precision, is_complex,
            low=low, high=high, pattern=self.pattern,
        )  # fmt: skip

    def in_precision(self, precision: str) -> Spec:
        """The same in another precision."""
        names = {"float64": "c16", "float32": "c8"}
        name = names[precision] if self.dtype.kind == "c" else precision
        return replace(self, dtype=np.dtype(name))

    def made(self, view: Array) -> Any:
        """A fresh array (or number) with the numbers of ``view``."""
        if self.dtype.kind == "c":
            view = np.ascontiguousarray(view).view(np.complex128)[..., 0]
        if self.scalar is not None and not issubclass(self.scalar, np.generic):
            return self.scalar(view.item())
        with np.errstate(over="ignore"):
            out = np.array(view, dtype=self.dtype, order=self.order, copy=True)  # type: ignore[call-overload]
        return out[()] if self.scalar is not None else out


def write(out: Array, a: Any) -> None:
    """Put the numbers of ``a`` into ``out``, the view of its leaf on a flat vector."""
    a = np.asarray(a)
    if a.dtype.kind == "c":
        out[..., 0], out[..., 1] = a.real, a.imag
    elif out.ndim > a.ndim:  # a real result where complex numbers are expected
        out[..., 0], out[..., 1] = a, 0.0
    else:
        out[...] = a


class Shape(Exception):
    """A result that does not fit where it belongs."""


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments with a slot for each leaf that varies."""

    skeleton: Any
    specs: tuple[Spec, ...]
    paths: tuple[str, ...]
    names: tuple[str, ...]  # of the positional arguments
    plain: list[tuple[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def filled(self, leaves: list[Any]) -> Tree:
        """Fresh arguments; arrays that do not vary are copied too."""
        args, kwargs = trees.join(self.skeleton, leaves)
        return _copied(args, leaves), _copied(kwargs, leaves)


def _copied(thing: Any, ours: list[Any]) -> Any:
    if isinstance(thing, np.ndarray):
        return thing if any(thing is a for a in ours) else thing.copy()
    if isinstance(thing, tuple) and not hasattr(thing, "_fields"):
        return tuple(_copied(item, ours) for item in thing)
    if isinstance(thing, list):
        return [_copied(item, ours) for item in thing]
    if type(thing) is dict:
        return {key: _copied(item, ours) for key, item in thing.items()}
    return thing


def sorted_arguments(
    thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any], called: str
) -> tuple[Arguments, Vector]:
    """The arguments, sorted into what varies and what stays."""
    everything = [item for _, item in trees.walk((args, kwargs))]
    kind = is_floating if any(map(is_floating, everything)) else is_number

    def wanted(item: Any) -> bool:
        return kind(item) and not is_fixed(item)

    leaves: list[tuple[str, Any]] = []
    names = trees.argument_paths(thing, args)
    parts = [
        trees.split(a, p, wanted, leaves) for a, p in zip(args, names, strict=True)
    ]
    named = {k: trees.split(v, k, wanted, leaves) for k, v in kwargs.items()}
    plain = [
        item
        for a, p in [
            *zip(args, names, strict=True),
            *((v, k) for k, v in kwargs.items()),
        ]
        for item in trees.walk(a, p)
        if not wanted(item[1])
    ]
    if not leaves:
        got = ", ".join(f"{p}: {type(v).__name__}" for p, v in plain) or "no arguments"
        raise UsageError(
            f"{called} was given no floating-point array ({got}), so there is nothing "
            f"to differentiate by; pass at least one float or complex array."
        )
    specs = tuple(Spec.of(a) for _, a in leaves)
    notes = tuple(
        f"{p} is broadcast or overlaps itself in memory; it was copied to memory of its own"
        for p, a in leaves
        if isinstance(a, np.ndarray) and 0 in _strides(a)
    )
    paths = tuple(p for p, _ in leaves)
    space = Space.of([s.leaf(p) for s, p in zip(specs, paths, strict=True)])
    point = np.zeros(space.size)
    for leaf, (_, a) in zip(space, leaves, strict=True):
        write(space.view(point, leaf), a)
    skeleton = (tuple(parts), named)
    return Arguments(skeleton, specs, paths, tuple(names), plain, notes), point


def _strides(a: Array) -> list[int]:
    """Strides along the axes that have more than one element."""
    return [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1]
