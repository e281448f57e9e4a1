"""The arguments that a caller of the user's object fills in, by name."""

from __future__ import annotations

import inspect
from typing import Any

from gradproof.errors import UsageError


def signature(thing: Any) -> inspect.Signature:
    """Names, annotations and defaults of what the user passes to ``thing``.

    The context of a Function's ``forward`` is not among them.

    Raises:
        UsageError: nothing is known of its arguments (C++ without a signature).
    """
    owner = thing if isinstance(thing, type) else getattr(thing, "__self__", None)
    target, drop = thing, 0
    if isinstance(owner, type) and hasattr(owner, "backward"):
        target = owner.forward  # type: ignore[attr-defined]
        setup = getattr(owner, "setup_context", None)
        own = setup is not None and not setup.__module__.startswith("torch.")
        drop = 0 if own else 1
    elif not isinstance(thing, type) and hasattr(thing, "_init_fn"):
        target = thing._init_fn  # a custom operator keeps its Python body there
    elif hasattr(thing, "forward") and not isinstance(thing, type):
        target = thing.forward
    try:
        found = inspect.signature(target)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"no inputs were given, and the arguments of {thing!r} cannot be read; "
            "give inputs, e.g. -i 'x: f32[8, 64]'"
        ) from error
    kept = list(found.parameters.values())[drop:]
    return found.replace(parameters=kept)


def text(thing: Any) -> str:
    """The source text of ``thing``, or nothing where it cannot be read."""
    owner = getattr(thing, "__self__", None)
    try:
        return inspect.getsource(owner if isinstance(owner, type) else thing)
    except (OSError, TypeError):
        return ""
