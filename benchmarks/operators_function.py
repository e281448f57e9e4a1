"""One of PyTorch's operators as a ``torch.autograd.Function``.

In a file of its own, for its source is read in every check.
"""

from __future__ import annotations

from typing import Any

import torch
from operators_rules import Plant, Subject, pulled, remembered
from torch import Tensor
from torch.autograd.function import once_differentiable


def rule(subject: Subject, *, opaque: bool, plant: Plant | None = None) -> Any:
    """The subject as ``Function.apply``; ``opaque``: it runs in its own dtype only."""
    native = [t.dtype for t in subject.inputs]
    varied = subject.varied
    smooth = subject.smooth

    class Operator(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> Any:
            if opaque and [t.dtype for t in tensors] != native:
                raise TypeError("this kernel was built for one dtype")
            ctx.drawn = torch.get_rng_state()
            ctx.save_for_backward(*tensors)
            outs = tuple(remembered(subject, lambda: subject.call(*tensors), tensors))
            fixed = [t for t, s in zip(outs, smooth, strict=True) if not s]
            ctx.mark_non_differentiable(*fixed)
            return outs if len(outs) > 1 else outs[0]

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *cotangents: Tensor) -> Any:
            saved = ctx.saved_tensors
            grads = remembered(
                subject,
                lambda: pulled(subject, saved, cotangents, ctx.drawn),
                (*saved, *cotangents),
            )
            if plant is not None:
                live = [c for c, s in zip(cotangents, smooth, strict=True) if s]
                grads = plant(grads, live)
            full: list[Tensor | None] = [None] * len(native)
            for i, g in zip(varied, grads, strict=True):
                full[i] = g
            return tuple(full)

    Operator.__name__ = Operator.__qualname__ = subject.name
    return Operator.apply
