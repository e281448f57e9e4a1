"""Inputs in words, on disk, and out of described samples. Imports no framework."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradproof import samples
from gradproof.adapters import trees
from gradproof.adapters.signatures import signature
from gradproof.errors import UsageError
from gradproof.samples import Drawn

Actual = tuple[tuple[Any, ...], dict[str, Any]]

_FLOATING = {
    "float64", "float32", "float16", "bfloat16", "complex128", "complex64",
}  # fmt: skip
_BOUNDS: dict[int, tuple[float, float]] = {}
_PATTERNS: dict[int, str] = {}
_FIXED: set[int] = set()


# Bounds of the values at which a function may be asked, and the set that the values lie
# in, travel beside the tensor.


def bound(thing: Any, low: float, high: float, pattern: str = "") -> None:
    """Remember the bounds and the pattern of ``thing`` for as long as it lives."""
    if np.isfinite(low) or np.isfinite(high):
        _BOUNDS[id(thing)] = (low, high)
        weakref.finalize(thing, _BOUNDS.pop, id(thing), None)
    if pattern:
        _PATTERNS[id(thing)] = pattern
        weakref.finalize(thing, _PATTERNS.pop, id(thing), None)


def fix(thing: Any) -> None:
    """Remember for as long as ``thing`` lives that no gradient is asked for it."""
    _FIXED.add(id(thing))
    weakref.finalize(thing, _FIXED.discard, id(thing))


def is_fixed(thing: Any) -> bool:
    """Whether that was remembered."""
    return id(thing) in _FIXED


def bounds_of(thing: Any) -> tuple[float, float]:
    """What was remembered of ``thing``; infinite where nothing was."""
    return _BOUNDS.get(id(thing), (-np.inf, np.inf))


def pattern_of(thing: Any) -> str:
    """The set that its values lie in, as remembered; "" where nothing was."""
    return _PATTERNS.get(id(thing), "")


# In words.


def describe_inputs(
    inputs: Any, kwargs: Mapping[str, Any] | None = None, thing: Any = None
) -> str:
    """As in "x: float64[8, 64]; n: 3"; names are those of ``thing``'s parameters."""
    args = trees.positional(inputs)
    words = [
        _line(name, arg) for name, arg in zip(_names(thing, args), args, strict=True)
    ]
    words += [_line(name, value) for name, value in (kwargs or {}).items()]
    return "; ".join(words)


def _names(thing: Any, args: tuple[Any, ...]) -> list[str]:
    if thing is None:
        return [""] * len(args)
    try:
        known = signature(thing)
    except UsageError:
        return [""] * len(args)

    def named(*args: Any) -> None:
        """Bear the signature."""

    named.__signature__ = known  # type: ignore[attr-defined]
    return trees.argument_paths(named, args)


def _line(name: str, value: Any) -> str:
    return f"{name}: {_word(value)}" if name else _word(value)


def _word(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        dtype = str(value.dtype).removeprefix("torch.")
        extents = ", ".join(str(int(n)) for n in value.shape)
        return f"{dtype}[{extents}]"
    if isinstance(value, (tuple, list)):
        inner = ", ".join(_word(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_word(v)}" for k, v in value.items()) + "}"
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    return type(value).__name__


# From samples, and back.


def realise(
    drawn: Iterable[Drawn], thing: Any = None, *, arrays: bool = False
) -> Actual:
    """Drawn samples as tensors (or arrays): positional arguments, and keywords.

    Floating-point ones that are not ``fixed`` require grad. They are tensors where
    PyTorch is imported, unless ``thing`` is a function of a module that knows NumPy
    only, the caller's own values beside them are arrays, or ``arrays`` are asked for.
    """
    given = [d.value for d in drawn if d.array is None]
    arrays = arrays or _numpy_only(thing) or _beside_arrays(given)
    with_torch = "torch" in sys.modules and not arrays
    make = _tensor if with_torch else _array
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    own = [d.value for d in drawn if d.array is None and not d.fixed]
    asked = any(getattr(value, "requires_grad", False) for value in own)
    for one in drawn:
        value = _declared(one, asked=asked) if one.array is None else make(one)
        if one.keyword:
            kwargs[one.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _declared(one: Drawn, *, asked: bool) -> Any:
    """The caller's own value; under another name where something was said of it.

    What is remembered of it must not stick to the caller's own object. ``asked``:
    whether the caller marked some of his tensors; else all vary that are not fixed.
    """
    value = one.value
    told = one.pattern or np.isfinite(one.low) or np.isfinite(one.high) or one.fixed
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return value
    if hasattr(value, "detach") and (told or not asked):
        value = value.detach()
        if value.is_floating_point() or value.is_complex():
            value.requires_grad_(not one.fixed)
    elif isinstance(value, np.ndarray) and told:
        value = value.view()
        if one.fixed:
            fix(value)
    else:
        return value
    bound(value, one.low, one.high, one.pattern)
    return value


def _beside_arrays(given: list[Any]) -> bool:
    """Whether the caller's own values are arrays of NumPy's, and no tensors."""
    return any(isinstance(a, np.ndarray) for a in given) and not any(
        hasattr(a, "detach") for a in given
    )


def _numpy_only(thing: Any) -> bool:
    known = getattr(thing, "__globals__", None)
    if known is None:
        return False
    owners = [_owner(value) for value in known.values()]
    return "numpy" in owners and "torch" not in owners


def _owner(value: Any) -> str:
    """The top package that a global is, or comes from."""
    name = (
        value.__name__
        if isinstance(value, types.ModuleType)
        else getattr(value, "__module__", None)
    )
    return name.partition(".")[0] if isinstance(name, str) else ""


def _tensor(one: Drawn) -> Any:
    torch = sys.modules["torch"]
    assert one.array is not None  # the caller has asked
    t = torch.from_numpy(np.array(one.array)).to(getattr(torch, one.dtype))
    if one.dtype in _FLOATING:
        t.requires_grad_(not one.fixed)
        bound(t, one.low, one.high, one.pattern)
    return t


def _array(one: Drawn) -> Any:
    if one.dtype == "bfloat16":
        raise UsageError(
            f"{one.name or 'an input'}: NumPy has no bfloat16; "
            f"give float32, or import torch first"
        )
    a = np.array(one.array, dtype=one.dtype)
    if one.fixed:
        fix(a)
    bound(a, one.low, one.high, one.pattern)
    return a


def drawn_of(
    inputs: Any, kwargs: Mapping[str, Any] | None = None, thing: Any = None
) -> list[Drawn]:
    """The inverse of ``realise``.

    Raises:
        UsageError: A tensor lies inside a list or a dict, where a sample cannot be.
    """
    args = trees.positional(inputs)
    named = [
        *((n, a, False) for n, a in zip(_names(thing, args), args, strict=True)),
        *((n, a, True) for n, a in (kwargs or {}).items()),
    ]
    asked = any(getattr(a, "requires_grad", False) for _, a, _ in named)
    return [_drawn(name, a, keyword, asked=asked) for name, a, keyword in named]


def _drawn(name: str, value: Any, keyword: Any, *, asked: bool) -> Drawn:
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        if any(hasattr(item, "shape") for _, item in trees.walk(value)):
            raise UsageError(
                f"{name or 'an input'} holds tensors inside a "
                f"{type(value).__name__}, which cannot be saved as inputs; "
                f"pass them as arguments of their own"
            )
        return Drawn(name, None, keyword=bool(keyword), value=value)
    dtype = str(value.dtype).removeprefix("torch.")
    low, high = bounds_of(value)
    unmarked = asked and not getattr(value, "requires_grad", False)
    fixed = is_fixed(value) or (dtype in _FLOATING and unmarked)
    return Drawn(
        name, _numbers(value, dtype), dtype=dtype, fixed=fixed, low=low, high=high,
        keyword=bool(keyword), pattern=pattern_of(value),
    )  # fmt: skip


def _numbers(value: Any, dtype: str) -> np.ndarray[Any, Any]:
    """The numbers of a tensor or array: exact, in a dtype that NumPy has."""
    if hasattr(value, "detach"):
        torch = sys.modules["torch"]
        value = value.detach().cpu()
        value = value.to_dense() if value.layout is not torch.strided else value
        if dtype in ("bfloat16", "float16", "float32"):
            value = value.double()
        value = value.resolve_conj().resolve_neg().numpy()
    wide = {"f": np.float64, "c": np.complex128}.get(value.dtype.kind, value.dtype)
    return np.array(value, dtype=wide)


def to_npz(
    path: str | Path,
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    thing: Any = None,
) -> None:
    """Write inputs to an ``.npz`` that holds no pickles; ``from_npz`` reads it back."""
    samples.save(path, drawn_of(inputs, kwargs, thing))


def from_npz(path: str | Path, thing: Any = None) -> Actual:
    """Positional arguments and keywords as ``to_npz`` was given them."""
    drawn: Sequence[Drawn] = samples.load(path)
    return realise(drawn, thing)
