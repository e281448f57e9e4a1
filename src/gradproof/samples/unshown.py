"""What given inputs leave unseen: a mistake that needs other ones would not have shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradproof.samples.described import INTEGERS, Described, literal, written_end
from gradproof.samples.drawing import Array, Drawn


def unshown(described: Sequence[Described], drawn: Sequence[Drawn]) -> tuple[str, ...]:
    """Each kind of input that is not among ``drawn``, in words; () where none is missed.

    Said of what was chosen for the user: an index without a repeat or a negative, a mask
    without an empty row, an interval, a gradient that is not asked, one value of a mode.
    """
    pairs = zip(described, drawn, strict=True)
    return tuple(text for d, one in pairs for text in _of(d, one))


def _of(d: Described, one: Drawn) -> Iterator[str]:
    if one.array is None:
        if not d.is_size and isinstance(one.value, (bool, str, type(None))):
            yield f"{d.name} other than {literal(one.value)}"
    elif d.dtype in INTEGERS and not d.pattern:
        yield from _of_integers(d.name, one.array)
    elif d.dtype == "bool":
        if one.array.ndim and one.array.any(axis=-1).all():
            yield f"a row of {d.name} that is False throughout"
    else:
        if d.fixed:
            yield f"the gradient of {d.name}"
        if d.pattern:
            yield f"{d.name} other than {d.pattern}"
        elif d.low is not None or d.high is not None:
            yield f"{d.name} outside {written_end(d.low)}..{written_end(d.high)}"


def _of_integers(name: str, array: Array) -> Iterator[str]:
    for axis, extent in enumerate(array.shape):
        rows = np.sort(array, axis=axis)
        if extent == 1 or not (np.diff(rows, axis=axis) == 0).any():
            along = f" along axis {axis}" if array.ndim > 1 else ""
            yield f"a value twice in {name}{along}"
    if array.size and array.min() >= 0:
        yield f"a negative {name}"
