"""gradproof: is this hand-written gradient right? Where is it wrong, why, what instead?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradproof.api import Report as Report
    from gradproof.api import assert_gradient as assert_gradient
    from gradproof.api import check as check
    from gradproof.api import derivative as derivative
    from gradproof.api import jacobian as jacobian
    from gradproof.dropin import GradcheckError as GradcheckError
    from gradproof.dropin import gradcheck as gradcheck
    from gradproof.dropin import gradgradcheck as gradgradcheck
    from gradproof.errors import GradientMismatch as GradientMismatch
    from gradproof.errors import GradproofError as GradproofError
    from gradproof.errors import UsageError as UsageError
    from gradproof.samples import arg as arg
    from gradproof.verdict import Verdict as Verdict

__version__ = "0.1.0"

# Where each public name lives. A testing tool is imported in places where it is not used:
# nothing is loaded until it is asked for, and PyTorch only by the drop-ins.
_HOMES = {
    "GradcheckError": "dropin",
    "GradientMismatch": "errors",
    "GradproofError": "errors",
    "Report": "api",
    "UsageError": "errors",
    "Verdict": "verdict",
    "arg": "samples",
    "assert_gradient": "api",
    "check": "api",
    "derivative": "api",
    "gradcheck": "dropin",
    "gradgradcheck": "dropin",
    "jacobian": "api",
}
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


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'gradproof' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"gradproof.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
