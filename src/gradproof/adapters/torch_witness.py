"""Other answers to the same vjp: a reference, and autodiff of the forward's body."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_body import Cuts, bodies
from gradproof.adapters.torch_lift import converted, lifted
from gradproof.adapters.torch_program import OutputChanged, Program, output_failure
from gradproof.adapters.torch_tensors import Spec, to_tensors, to_vector
from gradproof.rule import Reference, Reply, Witness
from gradproof.space import Space, Vector
from gradproof.verdict import Form

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


class Autodiff:
    """The vjp of a program by PyTorch's own rules."""

    def __init__(
        self,
        program: Program,
        domain: Space,
        inside: Callable[[], AbstractContextManager[Any]] = nullcontext,
        known: tuple[bool, ...] | None = None,
    ) -> None:
        """``known`` says for which leaves the answer means anything (NaN elsewhere)."""
        self.program = program
        self.domain = domain
        self.inside = inside
        self.known = known

    def vjp(self, x: Vector, ybar: Vector) -> Reply:
        """x̄, with the places where the graph is cut in its form."""
        cuts = Cuts()
        try:
            with (
                self.program.state,
                torch.enable_grad(),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")  # of a use that is ours, not theirs
                value, graph = self._pulled(x, ybar, cuts)
        except OutputChanged as error:
            return Reply(None, output_failure(error))
        except Exception as error:
            return Reply(None, failure_of(error))
        return Reply(value, form=Form(graph=graph, cuts=cuts.places))

    def _pulled(self, x: Vector, ybar: Vector, cuts: Cuts) -> tuple[Vector, bool]:
        from gradproof.adapters.torch_rule import pull

        program = self.program
        leaves = [t.requires_grad_() for t in to_tensors(self.domain, program.specs, x)]
        with self.inside(), cuts:
            outs = program(leaves)
        specs = tuple(Spec(o.shape, o.dtype, torch.device("cpu")) for o in program.outs)
        codomain = Space.of(
            [s.leaf(o.path) for s, o in zip(specs, program.outs, strict=True)]
        )
        grads: list[Tensor | None] = pull(
            outs, leaves, to_tensors(codomain, specs, ybar)
        )
        value = to_vector(self.domain, grads)
        for leaf, known in zip(self.domain, self.known or (), strict=False):
            if not known:
                value[leaf.slice] = np.nan
        return value, any(t.requires_grad for t in outs)


def body(rule: TorchRule) -> Witness | None:
    """Autodiff of the body of every custom forward, in float64; None where it is cut.

    Also None where no custom gradient is inside: it would be the same answer again.
    """
    if not rule.custom or len(rule.classes) < len(rule.custom):
        return None  # one that is written in C++ would answer by its own backward
    wide = lifted(rule.program)
    choices = [(wide[0], "float64")] if wide is not None else []
    choices.append((rule.program, rule.forward.codomain.leaves[0].precision))
    for program, precision in choices:
        diff = Autodiff(program, rule.forward.domain, bodies)
        reply = diff.vjp(rule.forward.point, np.ones(rule.forward.codomain.size))
        if not _same_values(rule, program):
            continue
        if reply.value is not None and reply.form is not None and reply.form.graph:
            return Witness("body", diff.vjp, precision, reply.form.cuts)
    return None


def _same_values(rule: TorchRule, program: Program) -> bool:
    """Whether a lifted program is still the same function, as far as rounding shows."""
    from gradproof.adapters.torch_rule import TorchPrimal

    if program is rule.program:
        return True
    native = rule.forward.value(rule.forward.point).value
    wide = TorchPrimal(program, rule.forward.domain, rule.forward.point)
    value = wide.value(rule.forward.point).value
    if native is None or value is None:
        return False
    unit = max(rule.forward.codomain.unit, rule.forward.domain.unit, 2.0**-24)
    top = np.abs(np.nan_to_num(native)).max(initial=0.0)
    return bool(
        np.allclose(value, native, 1e3 * unit, 1e3 * unit * top, equal_nan=True)
    )


def plain(rule: TorchRule, program: Program, known: tuple[bool, ...]) -> Reference:
    """A plain implementation with its own gradients, in the rule's dtype and float64.

    In float64 as it stands where it runs there, else with its own casts lifted; None
    where it still gives something else.
    """
    from gradproof.adapters.torch_rule import TorchPrimal

    domain, point = rule.forward.domain, rule.forward.point
    native = TorchPrimal(program, domain, point)
    known = known if len(known) == len(domain) else ()
    vjp = Autodiff(program, domain, known=known or None).vjp
    reply = vjp(point, np.ones(native.codomain.size))
    graph = reply.value is not None and reply.form is not None and reply.form.graph
    wide = [converted(program, "float64")]
    made = lifted(program)
    wide += [made[0]] if made is not None else []
    for choice in wide:
        if choice is None:
            continue
        exact = TorchPrimal(choice, domain.with_precision("float64"), point)
        if exact.value(point).value is None:
            continue
        pull_ = Autodiff(choice, exact.domain, known=known or None).vjp
        return Reference(
            native, exact, vjp if graph else None, pull_ if graph else None
        )
    return Reference(native, None, vjp if graph else None)


def reference(
    rule: TorchRule, program: Program, known: tuple[bool, ...]
) -> Witness | None:
    """Autodiff of a plain implementation, in float64 where it runs there.

    None where it has no gradient to give.
    """
    domain = rule.forward.domain
    wide = converted(program, "float64")
    choices = [(wide, "float64")] if wide is not None else []
    choices.append((program, domain.leaves[0].precision))
    for choice, precision in choices:
        diff = Autodiff(choice, domain, known=known)
        reply = diff.vjp(rule.forward.point, np.ones(rule.forward.codomain.size))
        if reply.value is not None and reply.form is not None and reply.form.graph:
            return Witness("reference", diff.vjp, precision)
    return None
