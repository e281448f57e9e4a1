"""A PyTorch object as a Rule."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters import (
    torch_bulk,
    torch_forward_mode,
    torch_inspect,
    torch_parts,
    torch_present,
    torch_rounding,
    torch_rows,
    torch_second,
    torch_together,
    torch_ways,
    torch_witness,
)
from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_lift import converted, lifted
from gradproof.adapters.torch_program import OutputChanged, Program, output_failure
from gradproof.adapters.torch_source import source_of_custom
from gradproof.adapters.torch_tensors import REAL, Spec, to_tensors, to_vector
from gradproof.errors import UsageError
from gradproof.rule import (
    PLAIN,
    BulkRule,
    Primal,
    Reference,
    Reply,
    Rule,
    Together,
    Way,
    Witness,
)
from gradproof.space import Matrix, Space, Vector
from gradproof.verdict import Failure, Source


class TorchPrimal(Primal):
    """The forward of a program, without its backward."""

    def __init__(
        self,
        program: Program,
        domain: Space,
        point: Vector,
        *,
        recording: bool = False,
    ) -> None:
        """Take a program whose outputs are known.

        ``recording``: record a graph for a value too, because the function gives
        something else, or raises, without one.
        """
        self.program = program
        self.recording = recording
        self.domain = domain
        self.specs = tuple(
            Spec(out.shape, out.dtype, torch.device("cpu")) for out in program.outs
        )
        self.codomain = Space.of(
            [s.leaf(o.path) for s, o in zip(self.specs, program.outs, strict=True)]
        )
        self.point = point

    def tensors(self, x: Vector) -> list[Tensor]:
        """Fresh tensors with the numbers of ``x``."""
        return to_tensors(self.domain, self.program.specs, x)

    def value(
        self, x: Vector, mode: AbstractContextManager[Any] | None = None
    ) -> Reply:
        """f(x), run without recording a graph where that makes no difference."""
        outs = self.outputs(x, mode)
        if isinstance(outs, Failure):
            return Reply(None, outs)
        return Reply(to_vector(self.codomain, list(outs)))

    def rounded(self, x: Vector, seed: int, *, fair: bool = True) -> Reply:
        """The value, what it rounds on the way rounded up or down at random."""
        return self.value(x, torch_rounding.Rounding(seed, self.dtypes(), fair=fair))

    def dtypes(self) -> frozenset[torch.dtype]:
        """Of the inputs and outputs, by their parts."""
        return frozenset(REAL[a.precision] for a in (*self.domain, *self.codomain))

    def outputs(
        self, x: Vector, mode: AbstractContextManager[Any] | None = None
    ) -> list[Tensor] | Failure:
        """The same as tensors, as the user's code gave them, run within ``mode``."""
        try:
            with self.program.state, torch.set_grad_enabled(self.recording):
                tensors = self.tensors(x)
                if self.recording:
                    tensors = [t.requires_grad_() for t in tensors]
                with mode or nullcontext():
                    return self.program(tensors)
        except OutputChanged as error:
            return output_failure(error)
        except Exception as error:
            return failure_of(error)

    def lifted(self) -> TorchPrimal | None:
        """The same in float64, the forward's own casts to less turned to float64.

        None where it does not run so, or gives less than float64 still; and for inputs
        that are float64 already, where there was no cast to turn.
        """
        made = lifted(self.program)
        if made is None:
            return None
        program, mode = made
        wide = TorchPrimal(
            program, self.domain.with_precision("float64"), self.point,
            recording=self.recording,
        )  # fmt: skip
        if wide.value(self.point).failure is not None:
            return None
        native = all(leaf.precision == "float64" for leaf in self.domain)
        return wide if mode.rewritten or not native else None

    def converted(self, precision: str) -> TorchPrimal | None:
        """The same at inputs of another precision; None where it does not run there."""
        program = converted(self.program, precision)
        if program is None:
            return None
        domain = self.domain.with_precision(precision)
        other = TorchPrimal(
            program, domain, domain.snap(self.point), recording=self.recording
        )
        return None if other.value(other.point).failure is not None else other


class TorchRule(Rule):
    """A program and the backward that its author wrote."""

    primal: Primal

    def __init__(
        self,
        primal: TorchPrimal,
        source: Source,
        *,
        entry: str = "",
        itself: bool = False,
        bypassed: tuple[str, ...] = (),
        classes: tuple[type, ...] = (),
        differentiable: bool = True,
        custom: tuple[Source, ...] = (),
        scalars: tuple[tuple[str, float], ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """Take a forward and where its backward stands.

        ``entry`` names the backward that must run ("" where there is none to expect);
        ``itself`` says that the forward is one custom gradient and nothing else;
        ``bypassed`` are Functions whose forward was called without ``apply``;
        ``classes`` are the Functions that ``custom`` describes.
        """
        self.forward = primal
        self.primal = primal
        self.source = source
        self.expected_entry = entry
        self.itself = itself
        self.bypassed = bypassed
        self.classes = classes
        self.differentiable = differentiable
        self.custom = custom
        self.scalars = scalars
        self.notes = notes
        self._surrogate: TorchPrimal | None = None
        self._reference: tuple[Program, tuple[bool, ...]] | None = None
        self._witnesses: tuple[Witness, ...] | None = None

    @property
    def program(self) -> Program:
        """What is run."""
        return self.forward.program

    def about(self, surrogate: TorchPrimal) -> TorchRule:
        """The same rule, held against the derivative of ``surrogate``."""
        self.primal = self._surrogate = surrogate
        return self

    def compare_with(self, reference: Program, known: tuple[bool, ...]) -> TorchRule:
        """The same rule, with a reference that knows the gradients of some leaves."""
        self._reference = (reference, known)
        return self

    def leaves(self, x: Vector) -> list[Tensor]:
        """Fresh tensors with the numbers of ``x`` that require grad."""
        return [t.requires_grad_() for t in self.forward.tensors(x)]

    def cotangents(self, ybar: Vector) -> list[Tensor]:
        """ȳ as tensors like the outputs."""
        return to_tensors(self.forward.codomain, self.forward.specs, ybar)

    def vjp(self, x: Vector, ybar: Vector, way: Way = PLAIN) -> Reply:
        """x̄ = J(x)ᵀ ȳ through the engine, as a training step would ask for it."""
        if way is not PLAIN:
            return torch_present.ask(self, x, ybar, way)
        return self._pulled(x, ybar)

    def replay(self, x: Vector, ybar: Vector) -> Reply:
        """The vjp, its backward beginning with the random state of the forward."""
        return self._pulled(x, ybar, rewind=True)

    def _pulled(self, x: Vector, ybar: Vector, *, rewind: bool = False) -> Reply:
        try:
            with self.program.state as state, torch.enable_grad():
                leaves = self.leaves(x)
                outs = self.program(leaves)
                if rewind:
                    state.rewind()
                grads = pull(outs, leaves, self.cotangents(ybar))
                return Reply(to_vector(self.forward.domain, grads))
        except OutputChanged as error:
            return Reply(None, output_failure(error))
        except Exception as error:
            return Reply(None, failure_of(error))

    def rounded(self, x: Vector, ybar: Vector, seed: int) -> Reply:
        """The vjp, what it rounds on the way rounded up or down at random."""
        with torch_rounding.Rounding(seed, self.forward.dtypes(), fair=True):
            return self._pulled(x, ybar)

    def rows(self, x: Vector, rows: np.ndarray) -> Matrix | None:
        """The vjps of unit cotangents from one graph, batched as far as that goes."""
        return torch_rows.rows_of(self, x, rows)

    def inspect(self, x: Vector, ybar: Vector) -> Reply:
        """The plain vjp, with its form and every side effect."""
        return torch_inspect.inspect(self, x, ybar)

    def ways(self) -> tuple[Way, ...]:
        """Every presentation that PyTorch can make, merged where they combine."""
        return torch_ways.asked_together(torch_ways.ways_for(self))

    def together(
        self,
        xs: Sequence[Any],
        ybars: Sequence[Any],
        xbars: Sequence[Any],
        shares: Sequence[float],
    ) -> Together:
        """Those that agree when a forward serves several of them."""
        return torch_together.together(self, xs, ybars, xbars, shares)

    def compiled(self, backend: str) -> tuple[Way, ...]:
        """Under torch.compile; a raw pair is no program of PyTorch's."""
        if self.source.kind == "pair":
            return ()
        return (torch_ways.compiled_by(backend),)

    @property
    def has_jvp(self) -> bool:
        """Whether a Function inside defines a forward mode."""
        return torch_forward_mode.has_jvp(self.classes)

    def jvp(self, x: Vector, tangent: Vector) -> Reply | None:
        """J(x) ẋ by the forward mode that a Function inside defines; else None."""
        if not self.has_jvp:
            return None
        return torch_forward_mode.jvp(self, x, tangent)

    def witnesses(self) -> tuple[Witness, ...]:
        """The reference that was given, and autodiff of the forward's body."""
        if self._witnesses is None:
            found: list[Witness | None] = []
            if self._reference is not None:
                found.append(torch_witness.reference(self, *self._reference))
            if self._surrogate is None:
                found.append(torch_witness.body(self))
            self._witnesses = tuple(w for w in found if w is not None)
        return self._witnesses

    def reference(self) -> Reference | None:
        """The plain implementation that was given, with its own gradients."""
        if self._reference is None:
            return None
        return torch_witness.plain(self, *self._reference)

    def bulk(self) -> BulkRule | None:
        """The rule on its own tensors; None where it is held against another function."""
        if self._surrogate is not None or self._reference is not None:
            return None
        return torch_bulk.bulk(self)

    def parts(self) -> tuple[TorchRule, ...]:
        """Each custom gradient inside, as a rule at what it was given at the point.

        Empty where the rule is such a gradient itself, or is held against a surrogate.
        """
        from gradproof.adapters import torch_adapt  # which makes rules, and so this one

        if self.source.kind == "pair" or self.itself or self._surrogate is not None:
            return ()
        with self.program.state, torch.enable_grad():
            seen = torch_parts.sightings(
                lambda: self.program(self.leaves(self.forward.point))
            )
        found = []
        for thing, args, kwargs in seen:
            try:
                found.append(torch_adapt.adapt(thing, args, kwargs))
            except UsageError:  # not alone, as an operator with nothing to vary is
                continue
        return tuple(found)

    def in_precision(self, precision: str) -> TorchRule | None:
        """The same rule at inputs, fixed tensors and parameters of another precision."""
        primal = self.forward.converted(precision)
        if primal is None:
            return None
        classes, custom = self.classes, self.custom
        if not custom:  # another path may be taken for another dtype
            classes = _applied(primal)
            custom = tuple(source_of_custom(cls) for cls in classes)
        other = TorchRule(
            primal, self.source, entry=self.expected_entry, itself=self.itself,
            bypassed=self.bypassed, classes=classes,
            differentiable=self.differentiable, custom=custom,
            scalars=self.scalars, notes=self.notes,
        )  # fmt: skip
        if self._surrogate is not None:
            surrogate = self._surrogate.converted(precision)
            if surrogate is None:
                return None
            other.about(surrogate)
        if self._reference is not None:
            program, known = self._reference
            reference = converted(program, precision)
            if reference is not None:
                other.compare_with(reference, known)
        return other

    def derived(self, order: str) -> Rule | None:
        """Its "second order": the vjp as a rule in (x, ȳ); None where PyTorch refuses."""
        if order != "second order":
            return None
        found = torch_second.derived(self)
        if isinstance(found, Failure):
            self.second_order_note = torch_second.refusal(found)
            return None
        return found


def _applied(primal: TorchPrimal) -> tuple[type, ...]:
    """The Functions that the forward applies at its point, recorded as in training."""
    with primal.program.state, torch.enable_grad():
        leaves = [t.requires_grad_() for t in primal.tensors(primal.point)]
        try:
            return torch_parts.applied(lambda: primal.program(leaves))
        except Exception:
            return ()  # whoever asks the rule will hear of it


def pull(
    outs: list[Tensor], leaves: list[Tensor], cotangents: list[Tensor]
) -> list[Tensor | None]:
    """One gradient for each leaf; None where the engine has none."""
    pairs = [
        (t, c.to(t.device) if c.device != t.device else c)
        for t, c in zip(outs, cotangents, strict=True)
        if t.requires_grad
    ]
    if not pairs:
        return [None] * len(leaves)
    return list(
        torch.autograd.grad(
            [t for t, _ in pairs], leaves, [c for _, c in pairs], allow_unused=True
        )
    )
