"""Descriptions made over: with numbers for their symbols, quoted, in another dtype."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gradproof.samples.described import FLOATING, Described
from gradproof.samples.extents import evaluate, fill

_COMPLEX = {"float64": "complex128", "float32": "complex64"}


def explain_choice(
    described: Sequence[Described], sizes: Mapping[str, int] | None = None
) -> str:
    """The line that says which inputs were guessed, and how to choose others."""
    chosen = shown(described, sizes or {})
    return f"inputs: {chosen} (guessed; choose with -i {quoted(described)})"


def shown(described: Sequence[Described], sizes: Mapping[str, int]) -> str:
    """The descriptions with numbers in place of the symbols, as ``draw`` sets them."""
    filled = fill([s for d in described for s in d.symbols], sizes)
    return "; ".join(str(_sized(d, filled)) for d in described)


def quoted(described: Sequence[Described]) -> str:
    """The descriptions as one word of a shell."""
    return shlex.quote("; ".join(map(str, described)))


def _sized(d: Described, sizes: Mapping[str, int]) -> Described:
    ends = [evaluate(e, sizes) if isinstance(e, str) else e for e in (d.low, d.high)]
    shape = tuple(evaluate(extent, sizes) for extent in d.shape)
    out = replace(d, shape=shape, low=ends[0], high=ends[1])
    if d.is_size:
        out = replace(out, value=evaluate(d.value, sizes), is_size=False)
    return out


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]


def with_dtype(described: Iterable[Described], dtype: str) -> tuple[Described, ...]:
    """Floating-point inputs in another dtype; complex ones in the one that goes with it."""
    out = []
    for d in described:
        if dtype and d.dtype in FLOATING:
            d = replace(d, dtype=dtype)
        elif dtype in _COMPLEX and d.dtype in _COMPLEX.values():
            d = replace(d, dtype=_COMPLEX[dtype])
        out.append(d)
    return tuple(out)
