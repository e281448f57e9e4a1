"""The user's source of a class or function. Knows no framework."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import re
import weakref
from typing import Any

from gradproof.verdict import Source

_ALLOW = re.compile(r"#\s*gradproof:\s*allow\[([^\]]*)\]")


def source_of(thing: Any, name: str, kind: str, forward: Any = None) -> Source:
    """The Source of a class or function; without text where it cannot be read."""
    thing = inspect.unwrap(thing) if callable(thing) else thing
    backward, forward_name = "backward", "forward"
    if not isinstance(thing, type):
        backward = getattr(thing, "__name__", "backward")
        forward_name = getattr(forward, "__name__", "forward")
    elif _has_own_vjp(thing):
        backward = "vjp"
    read = _read(thing)
    if read is None:
        return Source(name, kind, backward=backward, forward=forward_name)
    file, first, text = read
    return Source(
        name,
        kind,
        file=file,
        line=max(first, 1),
        text=text,
        backward=backward,
        forward=forward_name,
        allow=allowed(text, _above(file, first)),
    )


# What was read before, for to find a class its whole file is parsed.
_KNOWN: weakref.WeakKeyDictionary[Any, tuple[str, int, str]] = (
    weakref.WeakKeyDictionary()
)


def _read(thing: Any) -> tuple[str, int, str] | None:
    """File, first line and text of a class or function; None where there is none."""
    try:
        if thing in _KNOWN:
            return _KNOWN[thing]
    except TypeError:  # neither hashable nor weakly held: read it again
        pass
    try:
        file = inspect.getsourcefile(thing) or ""
        lines, first = inspect.getsourcelines(thing)
    except (OSError, TypeError, IndentationError, SyntaxError):
        return None
    found = file, first, "".join(lines)
    with contextlib.suppress(TypeError):
        _KNOWN[thing] = found
    return found


def _has_own_vjp(cls: type) -> bool:
    """Whether a Function calls its backward ``vjp``, as PyTorch lets it."""
    return "vjp" in vars(cls) and "backward" not in vars(cls)


def _above(file: str, first: int) -> str:
    """The comment lines directly above line ``first``."""
    out: list[str] = []
    at = first - 1
    while at >= 1:
        line = linecache.getline(file, at).strip()
        if not line.startswith("#"):
            break
        out.append(line)
        at -= 1
    return "\n".join(out)


def allowed(text: str, above: str = "") -> tuple[str, ...]:
    """The slugs that a ``# gradproof: allow[...]`` comment names."""
    slugs: list[str] = []
    for match in _ALLOW.finditer(above + "\n" + text):
        slugs += [part.strip() for part in match.group(1).split(",") if part.strip()]
    return tuple(dict.fromkeys(slugs))
