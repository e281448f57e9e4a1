"""gradproof: is this hand-written gradient right? Where is it wrong, why, what instead?"""

from __future__ import annotations

from gradproof.api import Report as Report
from gradproof.api import assert_gradient as assert_gradient
from gradproof.api import check as check
from gradproof.api import derivative as derivative
from gradproof.api import jacobian as jacobian
from gradproof.errors import GradientMismatch as GradientMismatch
from gradproof.errors import GradproofError as GradproofError
from gradproof.errors import UsageError as UsageError
from gradproof.samples import arg as arg
from gradproof.verdict import Verdict as Verdict

__version__ = "0.1.0"
__all__ = [
    "GradientMismatch",
    "GradproofError",
    "Report",
    "UsageError",
    "Verdict",
    "arg",
    "assert_gradient",
    "check",
    "derivative",
    "jacobian",
]

_DROP_INS = ("GradcheckError", "gradcheck", "gradgradcheck")


def __getattr__(name: str) -> object:
    """The drop-ins need PyTorch, and load it only when they are asked for."""
    if name in _DROP_INS:
        from gradproof import dropin

        return getattr(dropin, name)
    raise AttributeError(f"module 'gradproof' has no attribute {name!r}")
