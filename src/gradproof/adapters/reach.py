"""What a function reaches without being handed it. Knows no framework."""

from __future__ import annotations

import functools
from typing import Any


def reached(thing: Any) -> list[tuple[str, Any]]:
    """Objects behind a function, by the name it has for them.

    The object that a method is bound to, the arguments of a partial, the closure, and
    the globals that the function's code names.
    """
    if isinstance(thing, functools.partial):
        held = [*thing.args, *thing.keywords.values()]
        return [("partial", a) for a in held] + reached(thing.func)
    found: list[tuple[str, Any]] = []
    owner = getattr(thing, "__self__", None)
    if owner is not None:
        found.append(("self", owner))
    code = getattr(thing, "__code__", None)
    if code is None:
        return found
    for name, cell in zip(code.co_freevars, thing.__closure__ or (), strict=True):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # a cell that is not filled yet
            continue
    outside = thing.__globals__
    return found + [(name, outside[name]) for name in code.co_names if name in outside]
