"""The derivative of t ↦ φ(t) ∈ ℝᵐ at 0, with error bars that hold; see README.md."""

from __future__ import annotations

from gradproof.numdiff.engine import differentiate
from gradproof.numdiff.quick import Answer
from gradproof.numdiff.sampling import Phi

__all__ = ["Answer", "Phi", "differentiate"]
