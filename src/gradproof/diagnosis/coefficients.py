"""A diagonal plus a coupling term: by what is the coupling off, group by group?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.diagnosis.algebra import Ratio, ratio
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.structure import components, want_support
from gradproof.diagnosis.words import number


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
