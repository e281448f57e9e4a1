"""Nested arguments and results: named leaves out of them, and back into them.

Knows tuples, named tuples, lists and dicts; everything else is a leaf.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradproof.errors import UsageError

_BEYOND = 2**1023  # an integer from here on may be no float
_DEEPEST = 100  # nobody nests arguments deeper, but for a list that contains itself


@dataclass(frozen=True)
class Slot:
    """Where leaf number ``index`` belongs in a skeleton."""

    index: int


def split(
    thing: Any,
    path: str,
    wanted: Callable[[Any], bool],
    leaves: list[tuple[str, Any]],
    depth: int = 0,
) -> Any:
    """The skeleton of ``thing``; every wanted leaf is appended with its path.

    Raises:
        UsageError: where it is nested without end.
    """
    if depth > _DEEPEST:
        raise UsageError(
            f"the arguments are nested more than {_DEEPEST} deep (does a list or a dict "
            "contain itself?); pass them flatter"
        )
    depth += 1
    if wanted(thing):
        leaves.append((path, thing))
        return Slot(len(leaves) - 1)
    if isinstance(thing, tuple):
        names = getattr(thing, "_fields", None)
        paths = (
            [f"{path}.{name}" for name in names]
            if names
            else [f"{path}[{i}]" for i in range(len(thing))]
        )
        parts = [
            split(item, at, wanted, leaves, depth)
            for item, at in zip(thing, paths, strict=True)
        ]
        if names:
            return type(thing)(*parts)
        return tuple(parts)
    if isinstance(thing, list):
        return [
            split(item, f"{path}[{i}]", wanted, leaves, depth)
            for i, item in enumerate(thing)
        ]
    if type(thing) is dict:
        return {
            key: split(item, f"{path}[{key!r}]", wanted, leaves, depth)
            for key, item in thing.items()
        }
    return thing


def join(skeleton: Any, leaves: list[Any]) -> Any:
    """The inverse of ``split``; containers are fresh at every call."""
    if isinstance(skeleton, Slot):
        return leaves[skeleton.index]
    if isinstance(skeleton, tuple):
        parts = [join(item, leaves) for item in skeleton]
        if hasattr(skeleton, "_fields"):
            return type(skeleton)(*parts)
        return tuple(parts)
    if isinstance(skeleton, list):
        return [join(item, leaves) for item in skeleton]
    if type(skeleton) is dict:
        return {key: join(item, leaves) for key, item in skeleton.items()}
    return skeleton


def walk(thing: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every leaf of ``thing`` with its path."""
    leaves: list[tuple[str, Any]] = []

    def atom(item: Any) -> bool:
        return not (isinstance(item, (tuple, list)) or type(item) is dict)

    split(thing, path, atom, leaves)
    return leaves


def positional(inputs: Any) -> tuple[Any, ...]:
    """``inputs`` as positional arguments: a tuple or list is several, else one."""
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs)
    return (inputs,)


def argument_paths(
    function: Callable[..., Any] | None, args: tuple[Any, ...], skip: int = 0
) -> list[str]:
    """What a reader calls each positional argument.

    The parameter names of ``function`` after the first ``skip``; ``name[i]`` for those
    that a ``*name`` takes; ``inputs[i]`` where there is no signature to read.
    """
    fallback = [f"inputs[{i}]" for i in range(len(args))]
    if function is None:
        return fallback
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return fallback
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            taken = len(names) - skip
            names += [f"{p.name}[{i}]" for i in range(len(args) - taken)]
            break
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    names = names[skip:]
    return [
        names[i] if i < len(names) and names[i] else fallback[i]
        for i in range(len(args))
    ]


def numbers(leaves: list[tuple[str, Any]]) -> tuple[tuple[str, float], ...]:
    """The plain numbers among ``leaves``, by path; flags are no numbers.

    An integer beyond every float is left out: no factor could be told by it.
    """
    return tuple(
        (path, float(item))
        for path, item in leaves
        if isinstance(item, (int, float))
        and not isinstance(item, bool)
        and (isinstance(item, float) or abs(item) < _BEYOND)
    )


def unique(paths: list[str], taken: Mapping[str, Any] | set[str]) -> list[str]:
    """``paths``, with ``self.`` before those that are taken already."""
    return [f"self.{path}" if path in taken else path for path in paths]


def aligned(place: Any, g: Any) -> list[tuple[Slot, Any]]:
    """Each slot below ``place`` with its part of ``g``, nested alike."""
    if isinstance(place, Slot):
        return [(place, g)]
    if isinstance(place, (tuple, list)) and isinstance(g, (tuple, list)):
        pairs = list(zip(place, g, strict=False))
    elif isinstance(place, dict) and isinstance(g, dict):
        pairs = [(inner, g.get(key)) for key, inner in place.items()]
    else:
        return []
    return [found for inner, part in pairs for found in aligned(inner, part)]


class Misnamed(Exception):
    """A gradient was returned by a name that no argument has."""


def by_name(
    places: list[tuple[str, Any]], found: dict[str, Any]
) -> list[tuple[Any, Any]]:
    """Each argument with its part of a dict of gradients, by name.

    A lone argument that is a dict itself may have its gradients by its own keys.

    Raises:
        Misnamed: a key is no argument's name.
    """
    names = [name for name, _ in places]
    odd = [key for key in found if key not in names]
    if odd and len(places) == 1 and isinstance(places[0][1], dict):
        return [(places[0][1], found)]
    if odd:
        raise Misnamed(
            f"a gradient was returned for {odd[0]!r}, which is no argument; "
            f"the arguments are {', '.join(names)}"
        )
    return [(place, found.get(name)) for name, place in places]


def counted(n: int, what: str) -> str:
    """As in "1 input" and "3 inputs"."""
    return f"1 {what}" if n == 1 else f"{n} {what}s"
