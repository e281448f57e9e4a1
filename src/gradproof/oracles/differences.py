"""Derivatives of a primal by differences of its values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gradproof.numdiff import Answer, central, differentiate, step_ratio
from gradproof.numdiff.types import Array, Codes
from gradproof.rule import Primal
from gradproof.space import Vector
from gradproof.verdict import Estimate

BATCH = 1 << 22  # numbers that the values of one batch of columns may take


@dataclass(frozen=True, eq=False)
class Columns:
    """Derivatives of all m outputs in k single coordinates, each array (m, k).

    ``noise`` has shape (m,): the r.m.s. noise of the outputs' values.
    """

    value: Array
    bar: Array
    bound: Array
    code: Codes
    left: Array
    right: Array
    noise: Vector
    evaluations: int


class Differences:
    """The derivative of a primal at a point, by differences alone.

    ``evaluations`` counts the calls of the primal so far; ``value`` is f at the point.
    """

    def __init__(self, primal: Primal, point: Vector | None = None) -> None:
        """Evaluate f at ``point`` (default: the primal's own)."""
        self.primal = primal
        self.lifted = False
        self.method = "central difference"
        self.evaluations = 0
        self.point = primal.domain.snap(primal.point if point is None else point)
        self.unit = max(_computing(primal), 2.0**-53)
        self.value = self._ask(self.point)
        self._scales = _scales(primal, self.point)

    def scales(self) -> Vector:
        """The step scale of each coordinate, a power of two.

        A quarter of the larger of |x_j| and the typical magnitude of its leaf; of 1
        where the whole leaf is 0.
        """
        return self._scales.copy()

    def direction(self, u: Vector, plan: str = "quick") -> Estimate:
        """J u, of length ``codomain.size``; ``u`` is in absolute units.

        Where u is not representable in the domain's precision, the rounding of the
        displaced points is part of the noise.
        """
        domain = self.primal.domain
        u = np.asarray(u, dtype=np.float64)
        moving = u != 0
        if not moving.any():
            return _zero(self.value)
        size = np.abs(u[moving])
        ratio = self._scales[moving] / size
        reach = float(ratio.min() if plan == "quick" else 4.0 * np.median(ratio))
        reach = min(reach, 4.0 * float(ratio.min()))
        grain = float((domain.spacing(self.point)[moving] / size).max())
        low, high = _range(domain.lows(), domain.highs(), self.point, u)
        before = self.evaluations

        def phi(t: float) -> Vector:
            return self._ask(domain.snap(self.point + t * u))

        out = differentiate(
            phi, reach=reach, grain=grain, unit=self.unit, low=low, high=high,
            plan="quick" if plan == "quick" else "thorough", start=self.value,
        )  # fmt: skip
        return replace(out, evaluations=self.evaluations - before, method=self.method)

    def columns(self, cols: np.ndarray, plan: str = "quick") -> Columns:
        """Derivatives in the coordinates ``cols``, each with a step of its own."""
        cols = np.asarray(cols, dtype=np.int64)
        before = self.evaluations
        if plan == "quick":
            out = self._quick_columns(cols)
        else:
            out = self._thorough_columns(cols)
        return replace(out, evaluations=self.evaluations - before)

    def _ask(self, x: Vector) -> Vector:
        """f(x), or NaN where the user's code failed."""
        self.evaluations += 1
        value = self.primal.value(x).value
        if value is None:
            return np.full(self.primal.codomain.size, np.nan)
        return np.asarray(value, dtype=np.float64)

    def _thorough_columns(self, cols: np.ndarray) -> Columns:
        found = []
        for j in cols:
            u = np.zeros(self.primal.domain.size)
            u[j] = 1.0
            found.append(self.direction(u, "thorough"))
        m = self.primal.codomain.size

        def stack(name: str) -> Array:
            return np.array([getattr(e, name) for e in found]).reshape(-1, m).T

        noise = stack("noise").max(axis=1, initial=0.0)
        return Columns(
            stack("value"), stack("bar"), stack("bound"), stack("code").astype(np.int8),
            stack("left"), stack("right"), noise, 0,
        )  # fmt: skip

    def _quick_columns(self, cols: np.ndarray) -> Columns:
        m = self.primal.codomain.size
        most = max(1, BATCH // max(1, 4 * m))
        parts = [
            self._quick_batch(cols[i : i + most]) for i in range(0, len(cols), most)
        ]
        names = ("value", "bar", "bound", "code", "left", "right")
        none = np.zeros((m, 0))
        joined = {
            n: np.concatenate([none, *(getattr(p, n).T for p in parts)], axis=1)
            for n in names
        }
        noise = np.max([p.noise.max(axis=0) for p in parts], axis=0, initial=0.0)
        return Columns(
            joined["value"], joined["bar"], joined["bound"],
            joined["code"].astype(np.int8), joined["left"], joined["right"],
            np.broadcast_to(noise, (m,)), 0,
        )  # fmt: skip

    def _quick_batch(self, cols: np.ndarray) -> Answer:
        domain = self.primal.domain
        k, m = len(cols), self.primal.codomain.size
        x = self.point
        ratio = step_ratio(max(self.unit, domain.unit if not self.lifted else 0.0))
        h = self._scales[cols] * ratio
        h = np.maximum(h, 4.0 * domain.spacing(x)[cols])
        lows, highs = domain.lows()[cols], domain.highs()[cols]
        factors = (1.0, -1.0, 2.0, -2.0)
        moved = np.empty((4, k))
        values = np.full((4, k, m), np.nan)
        at = x.copy()
        targets = np.array([x[cols] + f * h for f in factors])
        for i in range(4):
            at_all = x.copy()
            at_all[cols] = targets[i]
            targets[i] = domain.snap(at_all)[cols]
        moved = targets - x[cols]
        inside = (targets >= lows) & (targets <= highs)
        for c, j in enumerate(cols.tolist()):
            old = at[j]
            for i in range(4):
                if inside[i, c]:
                    at[j] = targets[i, c]
                    values[i, c] = self._ask(at)
            at[j] = old
        steps = moved[:, :, None]
        return central(
            (steps[0], steps[1], steps[2], steps[3]),
            (values[0], values[1], values[2], values[3]),
            self.value,
            self.unit,
        )


def _zero(value: Vector) -> Estimate:
    """The derivative along nothing."""
    z = np.zeros_like(value)
    return Estimate(z, z, z, z, np.zeros(len(value), dtype=np.int8))


def _computing(primal: Primal) -> float:
    """Unit roundoff of the precision that the primal's values can be good to."""
    return max(primal.domain.unit, primal.codomain.unit)


def _scales(primal: Primal, x: Vector) -> Vector:
    out = np.empty(len(x))
    for leaf in primal.domain:
        size = np.abs(x[leaf.slice])
        size = np.where(np.isfinite(size), size, 0.0)
        some = size[size > 0]
        typical = float(np.median(some)) if len(some) else 1.0
        out[leaf.slice] = np.maximum(size, typical)
    exponent = np.frexp(out)[1] - 1
    return np.asarray(np.ldexp(0.25, exponent))


def _range(lows: Vector, highs: Vector, x: Vector, u: Vector) -> tuple[float, float]:
    """How far t may go so that x + t·u stays inside the domain's bounds."""
    with np.errstate(all="ignore"):
        up = np.where(u > 0, (highs - x) / u, np.where(u < 0, (lows - x) / u, np.inf))
        down = np.where(
            u > 0, (lows - x) / u, np.where(u < 0, (highs - x) / u, -np.inf)
        )
    up, down = up[~np.isnan(up)], down[~np.isnan(down)]
    return float(down.max(initial=-np.inf)), float(up.min(initial=np.inf))
