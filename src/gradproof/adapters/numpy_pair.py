"""A NumPy function and its hand-written derivative as a Rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.adapters import numpy_ways, randomness, trees
from gradproof.adapters.failures import failure_of
from gradproof.adapters.numpy_arrays import Array, Shape, is_number, write
from gradproof.adapters.numpy_primal import NumpyPrimal, complex_step
from gradproof.rule import PLAIN, Primal, Reference, Reply, Rule, Way, Witness
from gradproof.space import Vector
from gradproof.verdict import Effect, Failure, Form, Returned, Source


@dataclass(frozen=True)
class Backward:
    """The hand-written derivative: ``kind`` is vjp, gradient or jacobian."""

    call: Callable[..., Any]
    kind: str


class NumpyRule(Rule):
    """A pair of NumPy functions."""

    primal: Primal
    names = ("x̄", "grad_output")

    def __init__(
        self,
        primal: NumpyPrimal,
        backward: Backward,
        source: Source,
        notes: tuple[str, ...] = (),
    ) -> None:
        """Take both halves."""
        self.forward = primal
        self.primal = primal
        self.backward = backward
        self.source = source
        self.custom = (source,)
        self.scalars = trees.numbers(primal.arguments.plain)
        self.notes = notes
        self.plain: NumpyPrimal | None = None

    # Asking.

    def vjp(self, x: Vector, ybar: Vector, way: Way = PLAIN) -> Reply:
        """x̄ = J(x)ᵀ ȳ: a forward, then the backward, as in training."""
        if way is not PLAIN:
            return numpy_ways.ask(self, x, ybar, way)
        try:
            with self.forward.calls:
                leaves = self.forward.leaves(x)
                self.forward.raw(leaves)
                return Reply(self.assembled(self.pulled(leaves, self.shaped(ybar))))
        except Shape as error:
            return Reply(None, Failure("ShapeError", str(error)))
        except Exception as error:
            return Reply(None, failure_of(error))

    def inspect(self, x: Vector, ybar: Vector) -> Reply:
        """The plain vjp, with its form and side effects."""
        raw: list[tuple[str, Any]] = []
        effects: list[Effect] = []
        try:
            with self.forward.calls as calls:
                leaves = self.forward.leaves(x)
                before = [_bytes(a) for a in leaves]
                self.forward.raw(leaves)
                _note(effects, "mutated-input", self.paths, before, leaves)
                cotangents = self.shaped(ybar)
                given = [_bytes(a) for a in cotangents]
                random = calls.read()
                raw = self.pulled(leaves, cotangents)
                sources = randomness.drawn(random, calls.read())
                _note(effects, "mutated-input", self.paths, before, leaves)
                _note(
                    effects,
                    "mutated-cotangent",
                    self.cotangent_paths,
                    given,
                    cotangents,
                )
                if sources:
                    detail = "draws from " + ", ".join(sources)
                    effects.append(Effect("draws-in-backward", "backward", detail))
                value = self.assembled(raw)
        except Shape as error:
            failure = Failure("ShapeError", str(error))
            return Reply(None, failure, self._form(raw), tuple(effects))
        except Exception as error:
            return Reply(None, failure_of(error), self._form(raw), tuple(effects))
        return Reply(value, None, self._form(raw), tuple(effects))

    @property
    def paths(self) -> list[str]:
        """The names of the inputs."""
        return [leaf.path for leaf in self.forward.domain]

    @property
    def cotangent_paths(self) -> list[str]:
        """The names of the cotangents."""
        return [
            "grad_output" + leaf.path.removeprefix("out")
            for leaf in self.forward.codomain
        ]

    def shaped(self, ybar: Vector) -> list[Any]:
        """ȳ as arrays like the outputs."""
        space = self.forward.codomain
        return [
            spec.made(space.view(ybar, leaf))
            for (_, spec), leaf in zip(self.forward.outs, space, strict=True)
        ]

    def pulled(self, leaves: list[Any], cotangents: list[Any]) -> list[tuple[str, Any]]:
        """What the backward gives for each leaf, by path."""
        args, kwargs = self.forward.arguments.filled(leaves)
        if self.backward.kind == "vjp":
            slots: list[tuple[str, Any]] = []
            skeleton = trees.split(self.forward.result, "out", is_number, slots)
            found = self.backward.call(
                trees.join(skeleton, cotangents), *args, **kwargs
            )
            return self._by_leaf(found)
        found = self._by_leaf(self.backward.call(*args, **kwargs))
        if self.backward.kind == "gradient":
            scale = np.asarray(cotangents[0]).reshape(())
            return [
                (p, None if g is None else np.multiply(scale, np.conj(g)))
                for p, g in found
            ]
        flat = np.concatenate([np.asarray(c).reshape(-1) for c in cotangents])
        return [(p, self._through(j, flat, p)) for p, j in found]

    def _through(self, jacobian: Any, ybar: Array, path: str) -> Any:
        """Jᴴ ȳ for the columns of one leaf."""
        leaf = next(a for a in self.forward.domain if a.path == path)
        j = np.asarray(jacobian)
        size = int(np.prod(leaf.shape, dtype=int))
        if j.size != ybar.size * size:
            raise Shape(
                f"jacobian has shape {j.shape} for {path} but "
                f"({ybar.size}, {size}) was expected: (outputs, inputs)"
            )
        return (np.conj(j.reshape(ybar.size, size)).T @ ybar).reshape(leaf.shape)

    def _by_leaf(self, found: Any) -> list[tuple[str, Any]]:
        """One result for each leaf, however the user arranged them."""
        paths = self.paths
        arguments = self.forward.arguments
        if isinstance(found, dict):
            places = [*zip(arguments.names, arguments.skeleton[0], strict=True),
                      *arguments.skeleton[1].items()]  # fmt: skip
            try:
                return self._nested(trees.by_name(places, found))
            except trees.Misnamed as error:
                raise Shape(str(error)) from error
        given = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        parts = arguments.skeleton[0]
        flat = all(isinstance(p, trees.Slot) for p in parts)
        if len(given) == len(parts) and not (flat and len(parts) == len(paths)):
            return self._nested(list(zip(parts, given, strict=True)))
        if len(given) == len(paths):
            return list(zip(paths, given, strict=True))
        if self.backward.kind == "jacobian" and len(given) == 1:
            return self._columns(given[0])
        raise Shape(
            f"{self.source.backward} returned {trees.counted(len(given), 'gradient')} for "
            f"{trees.counted(len(paths), 'input')}"
        )

    def _columns(self, jacobian: Any) -> list[tuple[str, Any]]:
        """One matrix over all inputs, cut into the columns of each."""
        j = np.asarray(jacobian)
        out, start = [], 0
        for leaf in self.forward.domain:
            size = int(np.prod(leaf.shape, dtype=int))
            out.append((leaf.path, j[..., start : start + size]))
            start += size
        if j.shape[-1] != start:
            raise Shape(
                f"jacobian has {j.shape[-1]} columns but the inputs have {start} entries"
            )
        return out

    def _nested(self, pairs: list[tuple[Any, Any]]) -> list[tuple[str, Any]]:
        out: dict[int, Any] = {}
        for place, g in pairs:
            out.update({slot.index: part for slot, part in trees.aligned(place, g)})
        return [(path, out.get(i)) for i, path in enumerate(self.paths)]

    def assembled(self, raw: list[tuple[str, Any]]) -> Vector:
        """x̄ as a flat vector; Shape where a gradient does not fit its input."""
        domain = self.forward.domain
        out = np.zeros(domain.size)
        for leaf, (path, g) in zip(domain, raw, strict=True):
            if g is None:
                continue
            g = np.asarray(g)
            if g.shape != leaf.shape:
                if g.size != int(np.prod(leaf.shape, dtype=int)):
                    raise Shape(
                        f"{self.source.backward} returned shape {g.shape} for {path}, "
                        f"which has shape {leaf.shape}"
                    )
                g = g.reshape(leaf.shape)
            write(domain.view(out, leaf), g if leaf.is_complex else g.real)
        return out

    def _form(self, raw: list[tuple[str, Any]]) -> Form:
        """How the backward answered."""
        specs = self.forward.arguments.specs
        returned = []
        for (path, g), spec in zip(raw, specs, strict=False):
            common: dict[str, Any] = {
                "expected_shape": spec.shape,
                "expected_dtype": spec.dtype.name,
            }
            if g is None:
                returned.append(Returned(path, is_none=True, **common))
                continue
            a = np.asarray(g)
            dtype = spec.dtype.name if spec.scalar is not None else a.dtype.name
            shape = a.shape if self.backward.kind != "jacobian" else spec.shape
            returned.append(
                Returned(path, is_none=False, shape=shape, dtype=dtype, **common)
            )
        return Form(
            entered=(self.source.name,),
            expected_entry=self.source.name,
            returned=tuple(returned),
            unused=tuple(path for path, g in raw if g is None),
        )

    # Around the question.

    def ways(self) -> tuple[Way, ...]:
        """Layouts and orders of calls."""
        return numpy_ways.ways_for(self)

    def witnesses(self) -> tuple[Witness, ...]:
        """The complex step, where the forward takes complex numbers."""
        witness = complex_step(self.forward)
        return () if witness is None else (witness,)

    def reference(self) -> Reference | None:
        """The plain implementation that was given; it carries no gradient."""
        if self.plain is None:
            return None
        native = all(leaf.precision == "float64" for leaf in self.plain.domain)
        exact = self.plain if native else self.plain.converted("float64")
        return Reference(self.plain, exact)

    def in_precision(self, precision: str) -> NumpyRule | None:
        """The same pair at inputs of another precision."""
        primal = self.forward.converted(precision)
        if primal is None:
            return None
        other = NumpyRule(primal, self.backward, self.source, self.notes)
        if isinstance(self.primal, NumpyPrimal) and self.primal is not self.forward:
            surrogate = self.primal.converted(precision)
            if surrogate is None:
                return None
            other.primal = surrogate
        if self.plain is not None:
            other.plain = self.plain.converted(precision)
        return other


def _bytes(a: Any) -> bytes:
    return np.asarray(a).tobytes()


def _note(
    effects: list[Effect],
    slug: str,
    paths: list[str],
    before: list[bytes],
    now: list[Any],
) -> None:
    """Add an effect for each array whose bytes changed."""
    for path, was, a in zip(paths, before, now, strict=True):
        if any(e.subject == path for e in effects) or _bytes(a) == was:
            continue
        old = np.frombuffer(was, np.uint8).reshape(np.size(a), -1)
        new = np.frombuffer(_bytes(a), np.uint8).reshape(np.size(a), -1)
        n = int((old != new).any(axis=1).sum())
        effects.append(Effect(slug, path, f"{n} of {np.size(a)} entries changed"))
