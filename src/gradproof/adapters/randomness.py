"""Sources of random numbers: their state, read and put back. Knows no framework."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

State = list[tuple[str, Any]]


class Source:
    """One source of random numbers: how its state is read and written."""

    def __init__(
        self, name: str, read: Callable[[], Any], write: Callable[[Any], Any]
    ) -> None:
        """Name it for the reader of a report."""
        self.name = name
        self.read = read
        self.write = write


def same(a: Any, b: Any) -> bool:
    """Equality of two states: arrays (of any framework), nested dicts and tuples."""
    if isinstance(a, dict):
        return all(same(a[key], b[key]) for key in a)
    if hasattr(a, "shape"):
        return bool((a == b).all())
    return bool(a == b)


def legacy_numpy() -> Source:
    """The module-level generator, which a user's own ``np.random.rand`` draws from."""
    return Source(
        "numpy",
        lambda: np.random.get_state(legacy=False),  # noqa: NPY002
        np.random.set_state,
    )


def python() -> Source:
    """The generator behind the functions of the ``random`` module."""
    return Source("random", random.getstate, random.setstate)


def source_of(thing: Any, path: str) -> Source | None:
    """The source that a generator object is, or None."""
    if isinstance(thing, np.random.Generator):
        bits = thing.bit_generator
        return Source(path, lambda: bits.state, lambda s: setattr(bits, "state", s))
    if isinstance(thing, np.random.RandomState):
        return Source(path, lambda: thing.get_state(legacy=False), thing.set_state)
    if isinstance(thing, random.Random):
        return Source(path, thing.getstate, thing.setstate)
    return None


def drawn(before: State, after: State) -> tuple[str, ...]:
    """The names of the sources whose state moved."""
    return tuple(
        name for (name, a), (_, b) in zip(before, after, strict=True) if not same(a, b)
    )
