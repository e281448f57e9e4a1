"""The vjp of a TorchRule as a rule of its own, in (x, ȳ)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters import torch_graph
from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_program import OutputChanged, output_failure
from gradproof.adapters.torch_tensors import to_vector
from gradproof.rule import PLAIN, Primal, Reply, Rule, Way
from gradproof.space import Leaf, Space, Vector
from gradproof.verdict import Failure

# PyTorch makes a sparse tensor of its values by a step that has no second derivative.
SPARSE = "second order of sparse inputs"

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


class Gradient(Primal):
    """(x, ȳ) ↦ x̄ = J(x)ᵀ ȳ, by the rule's own backward."""

    def __init__(self, rule: TorchRule) -> None:
        """Take x at the rule's point and a cotangent drawn from a fixed seed."""
        self.rule = rule
        inner = rule.forward
        self.split = inner.domain.size
        paths = [out.path for out in inner.codomain]
        cotangents = [
            _renamed(leaf, "grad_output" + path.removeprefix("out"))
            for leaf, path in zip(inner.codomain, paths, strict=True)
        ]
        self.domain = Space.of([*inner.domain, *cotangents])
        self.codomain = Space.of(
            [_renamed(leaf, f"grad of {leaf.path}") for leaf in inner.domain]
        )
        ybar = inner.codomain.draw(np.random.default_rng(2))
        self.point = np.concatenate([inner.point, ybar])

    def value(self, x: Vector) -> Reply:
        """x̄ of length ``codomain.size``, for (x, ȳ) in one vector."""
        return self.rule.vjp(x[: self.split], x[self.split :])


def _renamed(leaf: Leaf, path: str) -> Leaf:
    return Leaf(path, leaf.shape, leaf.precision, leaf.is_complex)


class SecondOrder(Rule):
    """The derivative of a backward, as PyTorch forms it with ``create_graph``."""

    def __init__(self, rule: TorchRule) -> None:
        """Make the rule; ``derived`` says first whether there is one."""
        self.rule = rule
        self.primal: Gradient = Gradient(rule)
        self.source = rule.source
        self.custom = rule.custom
        self.scalars = rule.scalars

    def vjp(self, x: Vector, ybar: Vector, way: Way = PLAIN) -> Reply:
        """The pullback of ``ybar``, a cotangent of x̄, to (x, ȳ)."""
        try:
            with (
                self.rule.program.state,
                torch.enable_grad(),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")  # of a use that the user did not make
                return Reply(self._pulled(x, ybar))
        except OutputChanged as error:
            return Reply(None, output_failure(error))
        except Exception as error:
            return Reply(None, failure_of(error))

    def _pulled(self, x: Vector, ybar: Vector) -> Vector:
        rule, split = self.rule, self.primal.split
        leaves = rule.leaves(x[:split])
        outs = rule.program(leaves)
        cotangents = [t.requires_grad_() for t in rule.cotangents(x[split:])]
        pairs = [
            (t, c.to(t.device))
            for t, c in zip(outs, cotangents, strict=True)
            if t.requires_grad
        ]
        grads = torch.autograd.grad(
            [t for t, _ in pairs], leaves, [c for _, c in pairs],
            create_graph=True, allow_unused=True,
        )  # fmt: skip
        _refuse_delayed(grads)
        upper = rule.forward.tensors(ybar)
        seconds = [(g, u) for g, u in zip(grads, upper, strict=True) if _has_graph(g)]
        found: list[Tensor | None] = [None] * (len(leaves) + len(cotangents))
        if seconds:
            found = list(
                torch.autograd.grad(
                    [g for g, _ in seconds], [*leaves, *cotangents],
                    [u.to(g.dtype) for g, u in seconds], allow_unused=True,
                )
            )  # fmt: skip
        return to_vector(self.primal.domain, found)


def _refuse_delayed(grads: tuple[Tensor | None, ...]) -> None:
    """Raise what ``once_differentiable`` would, had the engine a path through it.

    Such a backward hands out gradients whose graph is a single node that raises when it
    is run, and that leads nowhere: asked for given inputs, the engine prunes it.
    """
    given = [g for g in grads if g is not None and g.requires_grad]
    if any(node.name().endswith("::Error") for node in torch_graph.nodes(given)):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked "
            "with @once_differentiable"
        )


def _has_graph(g: Tensor | None) -> bool:
    return g is not None and g.requires_grad


def derived(rule: TorchRule) -> SecondOrder | Failure:
    """The second-order rule of ``rule``, or how PyTorch refuses to make it."""
    if any(spec.sparse is not None for spec in rule.program.specs):
        return Failure("", SPARSE)
    second = SecondOrder(rule)
    probe = second.primal.codomain.draw(np.random.default_rng(3))
    reply = second.vjp(second.primal.point, probe)
    return second if reply.failure is None else reply.failure


def refusal(failure: Failure) -> str:
    """Why there is no second order, in a sentence for the reader."""
    if "once_differentiable" in failure.message:
        return "no second order: the backward is marked once_differentiable"
    if failure.message == SPARSE:
        return SPARSE
    return f"no second order: {failure.kind}: {failure.message}"
