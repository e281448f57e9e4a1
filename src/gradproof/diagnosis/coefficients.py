"""A diagonal plus a coupling term: by what is the coupling off, group by group?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY, Ratio, rank, ratio
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.structure import components, got_support, want_support
from gradproof.diagnosis.words import number
from gradproof.space import Matrix


@dataclass(frozen=True)
class Coefficients:
    """Off the diagonal, got = c · want; c for each group."""

    ratios: tuple[Ratio, ...]

    @property
    def constant(self) -> bool:
        """Whether one number serves all groups."""
        low = max(r.low for r in self.ratios)
        return low <= min(r.high for r in self.ratios)

    @property
    def shared(self) -> Ratio:
        """The number that serves all groups."""
        low = max(r.low for r in self.ratios)
        high = min(r.high for r in self.ratios)
        return Ratio(low, high, sum(r.count for r in self.ratios))

    @property
    def text(self) -> str:
        """The range of the numbers."""
        low, high = min(r.mid for r in self.ratios), max(r.mid for r in self.ratios)
        return f"from {number(low)} to {number(high)}"


def coefficients(look: Look) -> Coefficients | None:
    """The ratios, where every wrong square block is of this form.

    Only the entries off the diagonal are looked at: what remains on the diagonal cannot
    be told apart from another term.
    """
    found: list[Ratio] = []
    for _, _, p in look.pairs():
        if not p.bad.any():
            continue
        m, n = p.got.shape
        if m != n or not p.ok.all() or not np.isfinite(p.got).all():
            return None
        off = ~np.eye(n, dtype=bool)
        for rows, cols in components(want_support(p)):
            if not p.bad[np.ix_(rows, cols)].any():
                continue
            inside = np.zeros((m, n), bool)
            inside[np.ix_(rows, cols)] = True
            r = ratio([p], [inside & off])
            if r is None or r.count < 3 or len(rows) < 3:
                return None
            found.append(r)
    return Coefficients(tuple(found)) if found else None


def scaled(look: Look) -> str:
    """Group by group, given = c · expected but in a direction or two, and c varies.

    So it is where a statistic of each group is taken with another epsilon or count: it
    scales all that hangs together, and bends the terms that go through the statistic.
    """
    found: list[float] = []
    for _, _, p in look.pairs():
        if not p.bad.any():
            continue
        if not p.ok.all() or not np.isfinite(p.got).all():
            return ""
        for rows, cols in components(got_support(p) | want_support(p)):
            at = np.ix_(rows, cols)
            if not p.bad[at].any():
                continue
            c = _all_but_few(p.got[at], p.want[at], (p.bound + AMPLIFY * p.own)[at])
            if c is None:
                return ""
            found.append(c)
    if len(found) < 2 or np.ptp(found) < 0.02 * np.abs(np.array(found) - 1).max():
        return ""
    return f"from {number(min(found))} to {number(max(found))}"


def _all_but_few(got: Matrix, want: Matrix, error: Matrix) -> float | None:
    """The positive c ≠ 1 with got − c · want of rank 1 (of rank 2 in larger groups)."""
    n = len(got)
    if got.shape[0] != got.shape[1] or n < 5:
        return None
    left, size, right = np.linalg.svd(want)
    live = size > 1e-6 * size[0]
    inner = (left[:, live].T @ got @ right[live].T) / size[live]
    values = np.linalg.eigvals(inner)
    most = 1 if n < 9 else 2
    c = float(np.median(values.real))
    if c <= 0 or rank(got - want, error) <= most:
        return None
    return c if rank(got - c * want, (1 + c) * error) <= most else None
