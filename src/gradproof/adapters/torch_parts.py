"""Each custom gradient inside a callable, as a rule of its own at what it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gradproof.adapters import trees
from gradproof.adapters.torch_hooks import watching
from gradproof.adapters.torch_pair import is_pair
from gradproof.adapters.torch_source import is_generated, operator_of

Sighting = tuple[Any, tuple[Any, ...], dict[str, Any]]


def sighting(
    cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Sighting | None:
    """What to adapt for one application of a Function: (thing, inputs, kwargs).

    Tensors are copied, and require grad where they did. None for what cannot be asked
    again: a raw pair (it is adapted already), and tensors of a torch.func transform.
    """
    if is_pair(cls) or any(_wrapped(t) for _, t in trees.walk((args, kwargs))):
        return None
    inputs, named = _kept(args), _kept(kwargs)
    if not is_generated(cls):
        return cls, inputs, named
    keywords = getattr(args[-1], "keyword_only_args", {})  # the last is PyTorch's own
    return operator_of(cls), _kept(args[:-1]), _kept(dict(keywords))


def _wrapped(t: Any) -> bool:
    return isinstance(t, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(t)


def _kept(thing: Any) -> Any:
    """``thing`` with a copy of each tensor."""
    leaves: list[tuple[str, Any]] = []
    skeleton = trees.split(thing, "", lambda t: isinstance(t, Tensor), leaves)
    return trees.join(skeleton, [_copy(t) for _, t in leaves])


def _copy(t: Tensor) -> Tensor:
    copy = t.detach().clone()
    return copy.requires_grad_(t.requires_grad)


def sightings(run: Callable[[], Any]) -> list[Sighting]:
    """Every application of a custom Function during ``run``, one for each question.

    Two applications of one Function to tensors of the same shapes are one question.
    """
    found: dict[Any, Sighting] = {}

    def on_apply(cls: Any, args: Any, kwargs: Any, original: Callable[..., Any]) -> Any:
        seen = sighting(cls, args, kwargs)
        if seen is not None:
            found.setdefault((cls, _outline((args, kwargs))), seen)
        return original(*args, **kwargs)

    with watching(on_apply):
        run()
    return list(found.values())


def _outline(thing: Any) -> tuple[Any, ...]:
    """Shapes and dtypes of the tensors, and what the rest is."""
    return tuple(
        (path, tuple(t.shape), t.dtype, t.requires_grad)
        if isinstance(t, Tensor)
        else (path, type(t).__name__)
        for path, t in trees.walk(thing)
    )


def applied(run: Callable[[], Any]) -> tuple[type, ...]:
    """The custom Functions that ``run`` applies."""
    found: dict[type, None] = {}

    def on_apply(cls: Any, args: Any, kwargs: Any, original: Callable[..., Any]) -> Any:
        found.setdefault(cls)
        return original(*args, **kwargs)

    with watching(on_apply):
        run()
    return tuple(found)
