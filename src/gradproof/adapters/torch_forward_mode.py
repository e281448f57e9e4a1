"""The tangent that a rule's own forward mode gives."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING

import torch
import torch.autograd.forward_ad as fwad
from torch import Tensor
from torch.autograd.function import Function

from gradproof.adapters.failures import failure_of
from gradproof.adapters.torch_program import OutputChanged, output_failure
from gradproof.adapters.torch_tensors import to_vector
from gradproof.rule import Reply
from gradproof.space import Vector

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


def has_jvp(classes: tuple[type, ...]) -> bool:
    """Whether one of the Function classes has a hand-written ``jvp``."""
    return any(
        issubclass(cls, Function) and cls.jvp is not Function.jvp for cls in classes
    )


@functools.cache
def _prepared() -> None:
    """Let PyTorch load its forward mode, whose deprecations are not the user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fwad.dual_level():
            one = torch.ones(1)
            fwad.make_dual(one, one).sin()  # type: ignore[no-untyped-call]


def _tangent(t: Tensor) -> Tensor | None:
    unpacked = fwad.unpack_dual(t)  # type: ignore[no-untyped-call]
    tangent: Tensor | None = unpacked.tangent
    return tangent


def jvp(rule: TorchRule, x: Vector, tangent: Vector) -> Reply | None:
    """J(x) ẋ by dual numbers; None where some Function on the way has no ``jvp``."""
    _prepared()
    try:
        with rule.program.state, torch.no_grad(), fwad.dual_level():
            points = rule.forward.tensors(x)
            tangents = rule.forward.tensors(tangent)
            outs = rule.program(
                [
                    fwad.make_dual(p, t)  # type: ignore[no-untyped-call]
                    for p, t in zip(points, tangents, strict=True)
                ]
            )
            return Reply(to_vector(rule.forward.codomain, [_tangent(t) for t in outs]))
    except NotImplementedError:
        return None
    except OutputChanged as error:
        return Reply(None, output_failure(error))
    except Exception as error:
        return Reply(None, failure_of(error))
