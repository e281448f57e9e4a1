"""What a report was made with."""

from __future__ import annotations

import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version


def versions() -> tuple[tuple[str, str], ...]:
    """(name, version) of Python, of this package, and of the frameworks in use."""
    out = [("python", platform.python_version())]
    for name in ("gradproof", "numpy", "torch"):
        if name == "gradproof" or name in sys.modules:
            out += _installed(name)
    out.append(("platform", f"{platform.system()} {platform.machine()}"))
    return tuple(out)


@cache  # for it is read from files
def _installed(name: str) -> list[tuple[str, str]]:
    try:
        return [(name, version(name))]
    except PackageNotFoundError:  # run from a source tree
        return []
