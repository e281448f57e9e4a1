"""A program whose user's callable runs under ``torch.compile``.

Loaded only when that is asked for: the compiler takes seconds to import.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from types import FunctionType
from typing import Any

import torch

from gradproof.adapters.torch_program import Program
from gradproof.errors import UsageError
from gradproof.rule import NotCompiled

DEFAULT = "inductor"


@dataclass(eq=False, repr=False)
class Counted:
    """A backend of the compiler that counts the graphs which it was handed."""

    name: str
    graphs: int = 0

    def __repr__(self) -> str:
        """Its name, for the compiler's own messages."""
        return self.name

    def __call__(self, graph: Any, examples: Any) -> Any:
        """Compile one graph."""
        self.graphs += 1
        return _backend(self.name)(graph, examples)


@contextmanager
def compiled(program: Program, name: str) -> Iterator[tuple[Program, Counted]]:
    """``program``, its callable compiled by the backend of that name.

    Only the user's callable is, not what hands it its arguments, so that the compiler
    sees what it would see in training. What it kept is dropped in the end: code that the
    user compiled elsewhere is compiled once more when it is called.

    Raises:
        NotCompiled: the compiler cannot be used on this machine at all.
    """
    why = broken(name)
    if why:
        raise NotCompiled(why)
    counted = Counted(name)
    with _settings():
        try:
            made = torch.compile(_fresh(program.call), backend=counted)
            yield replace(program, call=made), counted
        except Exception as error:
            raise _cause(error) from error
        finally:
            torch.compiler.reset()


@cache
def broken(name: str) -> str:
    """Why the backend of that name compiles nothing here, not even a sine; or ""."""
    x = torch.ones(2, requires_grad=True)
    try:
        counted = Counted(name)
        with _settings(), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.compile(_fresh(torch.sin), backend=counted)
            made(x).sum().backward()
    except Exception as error:
        first = str(_cause(error)).strip().partition("\n")[0]
        return f"torch.compile does not run here (backend {name}: {first})"
    finally:
        torch.compiler.reset()
    if not counted.graphs:
        return "torch.compile is switched off here"
    return ""


def _cause(error: Exception) -> Exception:
    """What a backend raised, without the compiler's wrapping."""
    inner = getattr(error, "inner_exception", None)
    return inner if isinstance(inner, Exception) else error


def backend_of(asked: str) -> str:
    """The backend's name; see ``adapters.backend_of``."""
    known = torch.compiler.list_backends(exclude_tags=())
    if asked and asked not in known:
        near = get_close_matches(asked, known, n=1, cutoff=0.0)
        raise UsageError(
            f"compile={asked!r} was given, and True or the name of a backend of "
            f"torch.compile was expected; did you mean {near[0]!r}?"
        )
    return asked or DEFAULT


def _backend(name: str) -> Callable[..., Any]:
    from torch._dynamo.backends.registry import lookup_backend

    found: Callable[..., Any] = lookup_backend(name)
    return found


@contextmanager
def _settings() -> Iterator[None]:
    """Random numbers as eagerly, so that they can be compared; no processes left over."""
    from torch._inductor import config

    with config.patch(fallback_random=True, compile_threads=1):
        yield


def _fresh(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function around ``call`` with code of its own.

    The compiler keeps what it made beside the code, and gives up on code for which it
    made too much.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return FunctionType(
        run.__code__.replace(), run.__globals__, "run", None, run.__closure__
    )
