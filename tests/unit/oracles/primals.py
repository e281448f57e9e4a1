"""Primals made of plain functions on vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.rule import Primal, Reply
from gradproof.space import Leaf, Space
from gradproof.verdict import Failure

Function = Callable[[np.ndarray], np.ndarray]


class Plain(Primal):
    """f, its values rounded to ``precision``; ``wide`` is what ``lifted`` evaluates."""

    def __init__(
        self, f: Function, x, precision: str = "float64", wide: Function | None = None,
        low: float = -np.inf, high: float = np.inf,
    ) -> None:  # fmt: skip
        self.f, self.wide, self.asked = f, wide, []
        x = np.asarray(x, dtype=float)
        self.domain = Space.of([Leaf("x", (len(x),), precision, low=low, high=high)])
        self.point = self.domain.snap(x)
        with np.errstate(all="ignore"):
            m = len(f(self.point))
        self.codomain = Space.of([Leaf("y", (m,), precision)])

    def value(self, x: np.ndarray) -> Reply:
        self.asked.append(x.copy())
        with np.errstate(all="ignore"):
            return Reply(self.codomain.snap(self.f(x)))

    def lifted(self) -> Plain | None:
        return None if self.wide is None else Plain(self.wide, self.point)


class Raising(Plain):
    """Fails wherever the first coordinate is above ``limit``."""

    limit = 1.0

    def value(self, x: np.ndarray) -> Reply:
        if x[0] > self.limit:
            return Reply(None, Failure("ValueError", "too large"))
        return super().value(x)


def jacobian(f: Function, x: np.ndarray) -> np.ndarray:
    """By the complex step, for analytic f."""
    x = np.asarray(x, dtype=float)
    steps = 1e-30j * np.eye(len(x))
    return np.array([f(x + s).imag / 1e-30 for s in steps]).T
