"""A NumPy function and its hand-written derivative, made a Rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradproof.adapters import randomness, trees
from gradproof.adapters.failures import failure_of, peeled
from gradproof.adapters.numpy_arrays import Arguments, sorted_arguments
from gradproof.adapters.numpy_pair import Backward, NumpyRule
from gradproof.adapters.numpy_primal import Calls, NumpyPrimal
from gradproof.adapters.reach import reached
from gradproof.adapters.sources import source_of
from gradproof.errors import UsageError, UserCodeError


def adapt(
    thing: Any,
    inputs: Any,
    kwargs: dict[str, Any] | None,
    *,
    backward: Backward,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    reset: Callable[[], Any] | None = None,
    name: str | None = None,
) -> NumpyRule:
    """The rule of a NumPy pair at the given inputs; see ``adapters.adapt``."""
    _callable(thing, "a forward function")
    _callable(backward.call, f"{backward.kind}=")
    asked = _Asked(thing, inputs, kwargs, name, backward.call)
    primal = asked.primal(thing, reset, asked.name)
    _some_output(primal, asked.name, "gradient is to be checked")
    if backward.kind == "gradient" and primal.codomain.size != 1:
        shape = primal.codomain.leaves[0].shape
        raise UsageError(
            f"gradient= is for a function with one output number but {asked.name} gives "
            f"shape {shape}; pass vjp= or jacobian=."
        )
    source = source_of(backward.call, asked.name, "pair", thing)
    rule = NumpyRule(primal, backward, source, asked.arguments.notes)
    if surrogate is not None:
        rule.primal = asked.beside(primal, surrogate, "surrogate")
    if reference is not None:
        rule.plain = asked.beside(primal, reference, "reference")
    return rule


def forward_of(
    thing: Any,
    inputs: Any,
    kwargs: dict[str, Any] | None,
    *,
    reset: Callable[[], Any] | None = None,
    name: str | None = None,
) -> NumpyPrimal:
    """A NumPy function on its own, at the given inputs; see ``adapters.primal``."""
    _callable(thing, "a function")
    asked = _Asked(thing, inputs, kwargs, name)
    primal = asked.primal(thing, reset, asked.name)
    _some_output(primal, asked.name, "derivative is asked for")
    return primal


class _Asked:
    """The arguments of a call, and the random state that every call begins with."""

    def __init__(
        self,
        thing: Any,
        inputs: Any,
        kwargs: dict[str, Any] | None,
        name: str | None,
        *others: Any,
    ) -> None:
        self.name = name or str(getattr(thing, "__name__", type(thing).__name__))
        self.arguments: Arguments
        self.arguments, self.point = sorted_arguments(
            thing, trees.positional(inputs), dict(kwargs or {}), self.name
        )
        near = [
            *self.arguments.plain,
            *(r for t in (thing, *others) for r in reached(t)),
        ]
        self.calls = Calls([(p, g) for p, g in near if randomness.source_of(g, p)])

    def primal(
        self, call: Callable[..., Any], reset: Callable[[], Any] | None, called: str
    ) -> NumpyPrimal:
        """``call`` at the arguments; UserCodeError where it raises."""
        try:
            return NumpyPrimal(call, self.arguments, self.calls, self.point, reset)
        except Exception as error:
            failure = failure_of(error)
            raise UserCodeError(
                f"{called} raised {failure.kind} at the given inputs: {failure.message}",
                failure.trace,
            ) from peeled(error)

    def beside(self, primal: NumpyPrimal, call: Any, keyword: str) -> NumpyPrimal:
        """Another function of the same arguments, with the outputs of ``primal``."""
        if not callable(call):
            raise UsageError(
                f"Expected {keyword}= to be a function of the same arguments but got "
                f"{type(call).__name__}, which cannot be called."
            )
        other = self.primal(call, None, f"{keyword}=")
        if [a.shape for a in other.codomain] != [a.shape for a in primal.codomain]:
            raise UsageError(
                f"{keyword}= gives another output than {self.name}; it must return the "
                f"same structure and shapes."
            )
        return other


def _callable(thing: Any, wanted: str) -> None:
    if not callable(thing):
        raise UsageError(
            f"Expected {wanted} that can be called but got {type(thing).__name__}."
        )


def _some_output(primal: NumpyPrimal, called: str, wanted: str) -> None:
    if not primal.outs:
        raise UsageError(
            f"{called} returned {type(primal.result).__name__} where an array of "
            f"floating-point numbers was expected; return the array whose {wanted}."
        )
