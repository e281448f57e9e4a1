"""Arithmetic that cards share: does one array explain another, within their errors?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gradproof.diagnosis.card import Bools
from gradproof.diagnosis.look import Panel
from gradproof.space import Mask, Matrix
from gradproof.verdict import Linearity

# A value counts as a signal when it stands this far above its own error: below that, its
# ratio to anything says nothing.
SIGNAL = 8.0
# Rounding that a repair adds of its own, in units of the rule's own rounding.
AMPLIFY = 4.0


def agrees(panel: Panel, repaired: Matrix, *, amplify: float = 1.0) -> Bools:
    """Where ``repaired`` is what the oracle says. True also where it was not asked.

    ``amplify``: by how much the repair magnifies the rule's own rounding.
    """
    room = panel.bound + AMPLIFY * max(1.0, abs(amplify)) * panel.own
    with np.errstate(invalid="ignore"):
        out: Bools = (np.abs(repaired - panel.want) <= room) | ~panel.ok
    return out


def planted(
    panel: Panel, made: Matrix, error: Matrix | None = None, ok: Bools | None = None
) -> Bools:
    """Where the rule gave ``made``, a thing made of the truth (so with its error)."""
    room = (panel.bound if error is None else error) + AMPLIFY * panel.own
    known = panel.ok if ok is None else ok
    with np.errstate(invalid="ignore"):
        out: Bools = (np.abs(panel.got - made) <= room) | ~known
    return out


def zero_got(panel: Panel) -> Bools:
    """Where the rule gave nothing: 0, or less than its rounding."""
    out: Bools = np.abs(panel.got) <= panel.own
    return out


def zero_want(panel: Panel) -> Bools:
    """Where the true derivative is 0 within its error."""
    out: Bools = (np.abs(panel.want) <= panel.bound) & panel.ok
    return out


def signal(panel: Panel) -> Bools:
    """Where the true derivative stands well above its error."""
    out: Bools = (np.abs(panel.want) > SIGNAL * panel.slack) & panel.ok
    return out


@dataclass(frozen=True)
class Ratio:
    """All constants c with got = c · want in every entry lie in [low, high]."""

    low: float
    high: float
    count: int  # entries with a signal

    @property
    def mid(self) -> float:
        """The middle of the interval."""
        return 0.5 * (self.low + self.high)

    def holds(self, c: float) -> bool:
        """Whether c is possible."""
        return self.low <= c <= self.high


def ratio(
    panels: Iterable[Panel], masks: Sequence[Bools] | None = None
) -> Ratio | None:
    """The constant c with got = c · want everywhere measured, or None.

    From |got − c·want| ≤ own + |c|·bound in every entry: each entry gives an interval
    for c; they are intersected.
    """
    w_all, g_all, b_all, o_all = _gather(panels, masks)
    if not len(w_all) or not np.isfinite(g_all).all():
        return None
    strong = np.abs(w_all) > SIGNAL * (b_all + o_all)
    if not strong.any():
        return None
    sign = np.where(w_all < 0, -1.0, 1.0)
    g, w = g_all * sign, np.abs(w_all)
    weight = 1.0 / np.maximum(b_all + o_all, 1e-150) ** 2
    weight = np.minimum(weight / weight.max(), 1.0)
    lead = float(np.sum(weight * g * w))
    if lead == 0.0:
        return None
    turn = 1.0 if lead > 0 else -1.0
    g = g * turn
    # Some w' in [w − b, w + b] has |g − c·w'| ≤ o; where w ≤ b its sign is unknown.
    unknown = w <= b_all
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low = (np.where(unknown, np.abs(g), g) - o_all) / (w + b_all + 1e-300)
        high = np.where(unknown, np.inf, (g + o_all) / (w - b_all))
    a, b = float(np.max(low)), float(np.min(high))
    if not (a <= b and b > 0):
        return None
    a = max(a, 0.0)
    return Ratio(*((a, b) if turn > 0 else (-b, -a)), count=int(strong.sum()))


def _gather(
    panels: Iterable[Panel], masks: Sequence[Bools] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    cols: list[list[np.ndarray]] = [[], [], [], []]
    for k, p in enumerate(panels):
        take = p.ok if masks is None else p.ok & masks[k]
        for store, values in zip(
            cols, (p.want, p.got, p.bound, AMPLIFY * p.own), strict=True
        ):
            store.append(values[take])
    if not cols[0]:
        empty = np.zeros(0)
        return empty, empty, empty, empty
    w, g, b, o = (np.concatenate(c) for c in cols)
    return w, g, b, o


def rank(matrix: Matrix, error: Matrix | float) -> int:
    """Number of singular values above what entries of that error can make up.

    A matrix of entries ≤ e has spectral norm ≤ ‖e‖_F.
    """
    if not matrix.size or not np.isfinite(matrix).all():
        return 0 if not matrix.size else min(matrix.shape)
    floor = float(np.sqrt(np.sum(np.square(np.broadcast_to(error, matrix.shape)))))
    s = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(s > max(2.0 * floor, 1e-12 * float(s[0]))))


def parallel(a: Matrix, b: Matrix, error: Matrix) -> bool:
    """Whether two rows or arrays are multiples of each other within an error."""
    stacked = np.stack([a.ravel(), b.ravel()])
    return rank(stacked, np.stack([error.ravel(), error.ravel()])) <= 1


def affine(lin: Linearity, where: Mask | None = None) -> bool:
    """Whether vjp(ȳ) − vjp(0) is linear in ȳ (on some coordinates)."""
    if lin.zero is None or lin.scaled is None or lin.both is None or lin.other is None:
        return False
    room = abs(lin.factor) * lin.slack + 1e-9 * np.abs(lin.zero)
    scaled = np.abs(lin.scaled - lin.zero - lin.factor * (lin.once - lin.zero)) <= room
    both = np.abs(lin.both + lin.zero - lin.once - lin.other) <= room
    fine = scaled & both
    return bool(fine.all() if where is None else fine[where].all())
