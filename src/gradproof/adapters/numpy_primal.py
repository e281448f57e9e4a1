"""The forward of a NumPy pair, and the complex step through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from gradproof.adapters import randomness, trees
from gradproof.adapters.failures import failure_of, told
from gradproof.adapters.numpy_arrays import Arguments, Shape, Spec, is_number, write
from gradproof.rule import Primal, Reply, Witness
from gradproof.space import Space, Vector
from gradproof.verdict import Failure

# A complex step this small loses nothing to truncation (its error is of order h²) and
# stays clear of underflow.
_COMPLEX_STEP = 1e-30
_COMPLEX_STEP_UP_TO = 512  # coordinates: it takes one evaluation for each


class Calls:
    """Runs the user's functions with the random state of the first call.

    As a context manager it saves the user's random state, sets that of the beginning,
    and puts the user's back.
    """

    def __init__(self, generators: list[tuple[str, Any]]) -> None:
        """Take the state as it is now for that of every call."""
        given = [randomness.source_of(g, path) for path, g in generators]
        self._sources = [s for s in given if s is not None]
        self._sources += [randomness.legacy_numpy(), randomness.python()]
        self._start = [s.read() for s in self._sources]
        self._saved: list[Any] = []

    def __enter__(self) -> Calls:
        """Save the user's state and set ours."""
        self._saved = [s.read() for s in self._sources]
        self.rewind()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the user's state back."""
        for source, state in zip(self._sources, self._saved, strict=True):
            source.write(state)
        told(error)

    def rewind(self) -> None:
        """Set the state of the beginning."""
        for source, state in zip(self._sources, self._start, strict=True):
            source.write(state)

    def read(self) -> randomness.State:
        """The state now, by name of the source."""
        return [(s.name, s.read()) for s in self._sources]


class NumpyPrimal(Primal):
    """The forward of a pair."""

    def __init__(
        self,
        call: Callable[..., Any],
        arguments: Arguments,
        calls: Calls,
        point: Vector,
        reset: Callable[[], Any] | None = None,
    ) -> None:
        """Call the function once, to learn its outputs; raises what it raises."""
        self.call = call
        self.arguments = arguments
        self.calls = calls
        self.reset = reset
        self.domain = Space.of(
            [s.leaf(p) for s, p in zip(arguments.specs, arguments.paths, strict=True)]
        )
        self.point = point
        self.outs: tuple[tuple[str, Spec], ...] = ()
        with calls:
            self.result = self.raw(self.leaves(point))
        self.outs = tuple((p, Spec.of(a)) for p, a in outputs_of(self.result))
        self.codomain = Space.of([s.leaf(p) for p, s in self.outs])

    def leaves(self, x: Vector) -> list[Any]:
        """Fresh arrays with the numbers of ``x``."""
        return [
            spec.made(self.domain.view(x, leaf))
            for spec, leaf in zip(self.arguments.specs, self.domain, strict=True)
        ]

    def raw(self, leaves: list[Any]) -> Any:
        """The user's own result."""
        if self.reset is not None:
            self.reset()
        args, kwargs = self.arguments.filled(leaves)
        return self.call(*args, **kwargs)

    def vector(self, result: Any) -> Vector:
        """A result as a flat vector; Shape where it is another one than at the point."""
        found = outputs_of(result)
        if len(found) != len(self.outs):
            raise Shape(
                f"{trees.counted(len(found), 'floating-point output')} here but "
                f"{trees.counted(len(self.outs), 'floating-point output')} at the point"
            )
        out = np.zeros(self.codomain.size)
        for (path, a), leaf in zip(found, self.codomain, strict=True):
            if np.shape(a) != leaf.shape:
                raise Shape(
                    f"{path} has shape {np.shape(a)} here but {leaf.shape} at the point"
                )
            write(self.codomain.view(out, leaf), a)
        return out

    def value(self, x: Vector) -> Reply:
        """f(x)."""
        try:
            # Far from the point it may overflow, which is no news to anyone.
            with self.calls, np.errstate(all="ignore"):
                return Reply(self.vector(self.raw(self.leaves(x))))
        except Shape as error:
            return Reply(None, Failure("OutputChanged", str(error)))
        except Exception as error:
            return Reply(None, failure_of(error))

    def lifted(self) -> NumpyPrimal | None:
        """The same at float64 inputs, where that is another precision; else None."""
        if all(leaf.precision == "float64" for leaf in self.domain):
            return None
        return self.converted("float64")

    def converted(self, precision: str) -> NumpyPrimal | None:
        """The same at inputs of another precision; None where it does not run there."""
        if precision not in ("float64", "float32"):
            return None
        specs = tuple(s.in_precision(precision) for s in self.arguments.specs)
        cast = Space.of(
            [s.leaf(p) for s, p in zip(specs, self.arguments.paths, strict=True)]
        )
        try:
            other = NumpyPrimal(
                self.call, replace(self.arguments, specs=specs), self.calls,
                cast.snap(self.point), self.reset,
            )  # fmt: skip
        except Exception:  # the user's code may raise anything in another precision
            return None
        if any(leaf.precision != precision for leaf in other.codomain):
            return None
        return other if len(other.codomain) == len(self.codomain) else None


def outputs_of(result: Any) -> list[tuple[str, Any]]:
    """Arrays and numbers of a result that may vary."""
    return [(p, a) for p, a in trees.walk(result, "out") if is_number(a)]


def complex_step(primal: NumpyPrimal) -> Witness | None:
    """Im f(x + ih)/h, entry by entry; None where f does not take complex numbers.

    The method is that of Squire and Trapp (1998). It is right for analytic code only, so
    that its answer is an opinion and no verdict.
    """
    domain, codomain = primal.domain, primal.codomain
    real = not any(a.is_complex for a in (*domain, *codomain))
    exact = all(a.precision == "float64" for a in domain)
    arrays = all(s.scalar is None for s in primal.arguments.specs)
    if not (real and exact and arrays) or domain.size > _COMPLEX_STEP_UP_TO:
        return None

    def column(x: Vector, i: int) -> Vector:
        z = x.astype(np.complex128)
        z[i] += 1j * _COMPLEX_STEP
        leaves = [z[a.slice].reshape(a.shape) for a in domain]
        found = outputs_of(primal.raw(leaves))
        parts = [np.asarray(a, dtype=np.complex128).reshape(-1) for _, a in found]
        column = np.concatenate(parts).imag / _COMPLEX_STEP
        if column.size != codomain.size:
            raise Shape("the function gives another output for complex input")
        return np.asarray(column, dtype=np.float64)

    def vjp(x: Vector, ybar: Vector) -> Reply:
        try:
            with primal.calls, np.errstate(all="ignore"):
                return Reply(
                    np.array([column(x, i) @ ybar for i in range(domain.size)])
                )
        except Exception as error:  # real-only code raises anything at complex input
            return Reply(None, failure_of(error))

    reply = vjp(primal.point, np.ones(codomain.size))
    if reply.value is None or not np.isfinite(reply.value).all():
        return None
    return Witness("complex step", vjp, "float64") if reply.value.any() else None
