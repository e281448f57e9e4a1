"""Quick derivatives in many single coordinates, judged in one pass over all of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradproof.numdiff import quick
from gradproof.numdiff.quick import Answer
from gradproof.numdiff.types import Array, Bools
from gradproof.space import Space, Vector

BATCH = 1 << 22  # numbers that the values of one batch of columns may take
FACTORS = (1.0, -1.0, 2.0, -2.0)
CLOSER = 64.0
RETRIES = 3


def quick_columns(
    ask: Callable[[Vector], Vector],
    domain: Space,
    x: Vector,
    start: Vector,
    cols: np.ndarray,
    reach: Vector,
    unit: float,
    noise: Vector,
) -> Answer:
    """Answers of shape (len(cols), m): row k is the derivative in coordinate cols[k].

    Args:
        ask: f, NaN where it fails.
        domain: whose precision and bounds displaced points respect.
        x: the point, representable.
        start: f(x), shape (m,).
        cols: coordinates.
        reach: the largest sensible displacement of each.
        unit: unit roundoff of the values.
        noise: the least noise that each output may have, shape (m,).
    """
    most = max(1, BATCH // max(1, 4 * len(start)))
    parts = [
        _Batch(
            ask, domain, x, start, cols[i : i + most], reach[i : i + most], unit, noise
        )
        for i in range(0, max(1, len(cols)), most)
    ]
    return quick.joined([part.answer() for part in parts])


class _Batch:
    """Some columns, all of whose values fit in memory."""

    def __init__(
        self,
        ask: Callable[[Vector], Vector],
        domain: Space,
        x: Vector,
        start: Vector,
        cols: np.ndarray,
        reach: Vector,
        unit: float,
        noise: Vector,
    ) -> None:
        self.ask, self.domain, self.x, self.start = ask, domain, x, start
        self.cols, self.reach, self.unit, self.noise = cols, reach, unit, noise
        spacing = domain.spacing(x)[cols]
        self.least, self.grain = 2.0 * spacing, spacing[:, None]
        self.low, self.high = domain.lows()[cols], domain.highs()[cols]

    def answer(self) -> Answer:
        """Steps chosen beforehand; smaller or larger ones where these fail."""
        h = np.maximum(self.reach * quick.step_ratio(self.unit), self.least)
        room = np.minimum(self.x[self.cols] - self.low, self.high - self.x[self.cols])
        edge = (room < 2 * h) & (room > 2 * self.least)
        h = np.where(edge, 2.0 ** np.floor(np.log2(np.maximum(room, 1e-300) / 2)), h)
        every = np.ones(len(h), dtype=bool)
        out, values = self._at(h, every)
        for _ in range(RETRIES):
            lost = np.isfinite(self.start) & ~np.isfinite(values).all(axis=0)
            again = lost.any(axis=1) & (h / CLOSER > 8 * self.least) & (room >= 2 * h)
            if not again.any():
                break
            h = np.where(again, h / CLOSER, h)
            new, finer = self._at(h, again)
            found = lost & np.isfinite(finer).all(axis=0)
            out = quick.merged(out, new, found)
            values = np.where(found, finer, values)
        # Where the range itself leaves one side only, that side will do.
        sided = (room < 2 * h)[:, None]
        out = quick.withdrawn(out, np.where(sided, 0.0, values))
        wide = self.reach * quick.step_ratio(self.unit * out.excess)
        many = out.value.size >= quick.MANY
        if many and out.excess > quick.NOISY and (wide > 2 * h).any():
            other = self._at(wide, (wide > 2 * h) & (room >= 2 * wide))
            out = quick.better(out, quick.withdrawn(*other))
        silent = (values == self.start).all(axis=0)
        quiet = silent.all(axis=1)
        if quiet.any():
            out = self._heard(out, quiet)
        return out

    def _at(self, h: Vector, which: Bools) -> tuple[Answer, Array]:
        """Answers from ±h and ±2h, and those values (4, k, m); NaN where not asked."""
        moved = np.empty((4, len(h)))
        values = np.full((4, len(h), len(self.start)), np.nan)
        for i, factor in enumerate(FACTORS):
            moved[i] = self._values(factor * h, which, values[i])
        a, b, c, d = moved[:, :, None]
        f1, g1, f2, g2 = values
        answer = quick.central(
            (a, b, c, d),
            (f1, g1, f2, g2),
            self.start,
            self.unit,
            self.grain,
            self.noise,
        )
        return answer, values

    def _values(self, step: Vector, which: Bools, out: Array) -> Vector:
        """Ask at each column displaced; returns by how much it really was."""
        target = self.x.copy()
        target[self.cols] += step
        target = self.domain.snap(target)[self.cols]
        inside = which & (target >= self.low) & (target <= self.high)
        at = self.x.copy()
        for k in np.flatnonzero(inside).tolist():
            j = self.cols[k]
            at[j] = target[k]
            out[k] = self.ask(at)
            at[j] = self.x[j]
        return np.asarray(target - self.x[self.cols])

    def _heard(self, out: Answer, quiet: Bools) -> Answer:
        """Columns in which nothing moved, asked at the reach."""
        far = np.full((2, len(quiet), len(self.start)), np.nan)
        for i, sign in enumerate((1.0, -1.0)):
            self._values(sign * self.reach, quiet, far[i])
        far = np.where(np.isnan(far), self.start, far)
        silent = np.broadcast_to(quiet[:, None], out.value.shape)
        return quick.heard(out, silent, far, self.start, self.reach[:, None], self.unit)
