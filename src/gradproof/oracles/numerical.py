"""The numerical derivative itself, with its errors, in the shapes of the user's arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gradproof.oracles.differences import Differences
from gradproof.oracles.lift import best
from gradproof.oracles.tangent import Chart, Charted, chart
from gradproof.rule import Primal
from gradproof.space import Leaf, Vector
from gradproof.verdict import Code, Estimate

Array: TypeAlias = np.ndarray[Any, Any]

THOROUGH = 512  # coordinates that are measured with many steps each


@dataclass(frozen=True, eq=False)
class Derivative:
    """A derivative, entry by entry, and how far it may be off.

    All arrays have the shape (*out, *in) of the output and the input, or (*out) along a
    direction; a complex array counts as real and imaginary parts, on a last axis of 2.

    Attributes:
        value: the derivative; NaN where there is none (see ``code``).
        bar: its error, in at least 95 of 100 cases.
        bound: its error in the worst case that calibration knows.
        code: a ``gradproof.verdict.Code`` of each entry: 0 where it was measured.
        left: slope from the left where the entry is a kink, else NaN.
        right: slope from the right where the entry is a kink, else NaN.
        method: how it was measured.
        evaluations: calls of the function.
    """

    value: Array
    bar: Array
    bound: Array
    code: Array
    left: Array
    right: Array
    method: str
    evaluations: int

    @property
    def ok(self) -> bool:
        """Whether every entry was measured."""
        return bool((self.code == Code.OK).all())

    def __str__(self) -> str:
        """The value of a lone number with its bar; shape, error and gaps of an array."""
        if self.value.size == 1:
            code = Code(int(self.code.reshape(-1)[0]))
            if code != Code.OK:
                return f"no derivative ({code.name.lower()})"
            value, bar = self.value.reshape(-1)[0], self.bar.reshape(-1)[0]
            return f"{value:.12g} ± {bar:.1e}"
        known = self.code == Code.OK
        worst = float(self.bar[known].max(initial=0.0))
        return (
            f"{int(known.sum())} of {self.value.size} derivatives of shape "
            f"{self.value.shape}, each ± {worst:.1e} or less"
        )


def jacobian(primal: Primal) -> dict[tuple[str, str], Derivative]:
    """Every output by every input at the function's point, by their paths.

    Inputs that declare a set are moved along it; their derivatives are projected on its
    tangent space.
    """
    x = primal.domain.snap(primal.point)
    at = chart(primal.domain, x)
    oracle = best(primal if at is None else Charted(primal, at))
    size = oracle.primal.domain.size
    plan = "thorough" if size <= THOROUGH else "quick"
    c = oracle.columns(np.arange(size), plan)
    table = _Table(c.value, c.bar, c.bound, c.code, c.left, c.right)
    if at is not None:
        table = table.back(at)
    return {
        (out.path, leaf.path): table.cut(oracle, out, leaf)
        for out in primal.codomain
        for leaf in primal.domain
    }


def along(primal: Primal, u: Vector) -> dict[str, Derivative]:
    """Every output along the tangent ``u`` (length n), by path."""
    x = primal.domain.snap(primal.point)
    at = chart(primal.domain, x)
    oracle = best(primal if at is None else Charted(primal, at))
    e: Estimate = oracle.direction(u if at is None else at.pull(u), "thorough")
    none = np.full_like(e.value, np.nan)
    table = _Table(
        e.value, e.bar, e.bound, e.code,
        none if e.left is None else e.left, none if e.right is None else e.right,
    )  # fmt: skip
    return {out.path: table.cut(oracle, out, None) for out in primal.codomain}


@dataclass(frozen=True, eq=False)
class _Table:
    """Flat numbers: rows are outputs; columns, where there are any, are inputs."""

    value: Array
    bar: Array
    bound: Array
    code: Array
    left: Array
    right: Array

    def back(self, at: Chart) -> _Table:
        """By the entries of the inputs, from a chart's coordinates."""
        return _Table(
            at.spread(self.value), at.cover(self.bar), at.cover(self.bound),
            at.marks(self.code), at.slopes(self.left), at.slopes(self.right),
        )  # fmt: skip

    def cut(self, oracle: Differences, out: Leaf, leaf: Leaf | None) -> Derivative:
        """One output by one input, in their shapes."""
        shape = out.view_shape + (() if leaf is None else leaf.view_shape)

        def part(a: Array) -> Array:
            rows = a[out.slice] if leaf is None else a[out.slice, leaf.slice]
            return np.array(rows).reshape(shape)

        code = part(self.code)
        kink = code == Code.KINK
        return Derivative(
            value=np.where(code == Code.OK, part(self.value), np.nan),
            bar=part(self.bar),
            bound=part(self.bound),
            code=code,
            left=np.where(kink, part(self.left), np.nan),
            right=np.where(kink, part(self.right), np.nan),
            method=oracle.method,
            evaluations=oracle.evaluations,
        )
