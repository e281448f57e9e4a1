"""What we trust the truth from: differences of a primal, and witnesses; see README.md."""

from __future__ import annotations

from gradproof.oracles.combine import combine
from gradproof.oracles.differences import Columns, Differences
from gradproof.oracles.lift import best, cancels, explained
from gradproof.oracles.numerical import Derivative, along, jacobian
from gradproof.oracles.sets import misfit
from gradproof.oracles.tangent import Chart, Charted, chart, settled

__all__ = [
    "Chart",
    "Charted",
    "Columns",
    "Derivative",
    "Differences",
    "along",
    "best",
    "cancels",
    "chart",
    "combine",
    "explained",
    "jacobian",
    "misfit",
    "settled",
]
