"""A PyTorch object as a Rule."""

from __future__ import annotations

import torch
from torch import Tensor

from gradproof.adapters import torch_inspect
from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_program import OutputChanged, Program, output_failure
from gradproof.adapters.torch_tensors import Spec, to_tensors, to_vector
from gradproof.rule import PLAIN, Primal, Reply, Rule, Way
from gradproof.space import Space, Vector
from gradproof.verdict import Source


class TorchPrimal(Primal):
    """The forward of a program, without its backward."""

    def __init__(self, program: Program, domain: Space, point: Vector) -> None:
        """Take a program whose outputs are known."""
        self.program = program
        self.domain = domain
        self.codomain = Space.of(
            [
                Spec(out.shape, out.dtype, torch.device("cpu")).leaf(out.path)
                for out in program.outs
            ]
        )
        self.point = point

    def tensors(self, x: Vector) -> list[Tensor]:
        """Fresh tensors with the numbers of ``x``."""
        return to_tensors(self.domain, self.program.specs, x)

    def value(self, x: Vector) -> Reply:
        """f(x), run without recording a graph."""
        try:
            with self.program.state, torch.no_grad():
                outs = self.program(self.tensors(x))
                return Reply(to_vector(self.codomain, list(outs)))
        except OutputChanged as error:
            return Reply(None, output_failure(error))
        except Exception as error:
            return Reply(None, failure_of(error))


class TorchRule(Rule):
    """A program and the backward that its author wrote."""

    def __init__(
        self,
        primal: TorchPrimal,
        source: Source,
        *,
        oracle: Primal | None = None,
        differentiable: bool = True,
        custom: tuple[Source, ...] = (),
        scalars: tuple[tuple[str, float], ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """``oracle`` is the primal to be differentiated, where it is another one."""
        self.forward = primal
        self.primal = oracle if oracle is not None else primal
        self.source = source
        self.differentiable = differentiable
        self.custom = custom
        self.scalars = scalars
        self.notes = notes

    @property
    def program(self) -> Program:
        """What is run."""
        return self.forward.program

    @property
    def expected_entry(self) -> str:
        """The name of the backward that must run, "" when there is none to expect."""
        if self.source.kind in ("autograd.Function", "custom_op", "pair"):
            return self.source.name
        return self.custom[0].name if len(self.custom) == 1 else ""

    def leaves(self, x: Vector) -> list[Tensor]:
        """Fresh tensors with the numbers of ``x`` that require grad."""
        return [t.requires_grad_() for t in self.forward.tensors(x)]

    def cotangents(self, ybar: Vector) -> list[Tensor]:
        """ȳ as tensors like the outputs."""
        codomain = self.forward.codomain
        specs = tuple(
            Spec(out.shape, out.dtype, torch.device("cpu")) for out in self.program.outs
        )
        return to_tensors(codomain, specs, ybar)

    def vjp(self, x: Vector, ybar: Vector, way: Way = PLAIN) -> Reply:
        """x̄ = J(x)ᵀ ȳ through the engine, as a training step would ask for it."""
        try:
            with self.program.state, torch.enable_grad():
                return Reply(self.plain(x, ybar))
        except OutputChanged as error:
            return Reply(None, output_failure(error))
        except Exception as error:
            return Reply(None, failure_of(error))

    def plain(self, x: Vector, ybar: Vector) -> Vector:
        """``vjp``, but raising what the user's code raises."""
        leaves = self.leaves(x)
        outs = self.program(leaves)
        grads = pull(outs, leaves, self.cotangents(ybar))
        return to_vector(self.forward.domain, grads)

    def inspect(self, x: Vector, ybar: Vector) -> Reply:
        """The plain vjp, with its form and every side effect."""
        return torch_inspect.inspect(self, x, ybar)


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
