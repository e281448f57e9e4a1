"""The derivative of t ↦ φ(t) ∈ ℝᵐ at 0, with error bars that hold; see README.md."""

from __future__ import annotations

from gradproof.numdiff.engine import differentiate
from gradproof.numdiff.quick import Answer, central, step_ratio

__all__ = ["Answer", "central", "differentiate", "step_ratio"]
