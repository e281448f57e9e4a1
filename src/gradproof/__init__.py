"""gradproof: is this hand-written gradient right? Where is it wrong, why, what instead?"""

from __future__ import annotations

__version__ = "0.1.0"
