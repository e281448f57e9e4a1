"""Static facts of the user's source: what a backward reads, writes and returns, and where.

By AST only: nothing of the user's is imported or run, and nothing is judged. Any text is
survived; what cannot be parsed has no facts. Facts say where to point and what to edit;
whether a gradient is wrong is for measurements to say.
"""

from __future__ import annotations

from gradproof.source.reader import facts
from gradproof.source.records import Facts, Gradient, Mention

__all__ = ["Facts", "Gradient", "Mention", "facts"]
