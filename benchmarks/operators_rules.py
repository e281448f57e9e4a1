"""Rules made of PyTorch's own operators, right ones and ones with a planted error.

An operator of ``op_db`` and one of its samples become a ``torch.autograd.Function``: its
forward calls the operator without a graph, its backward asks autograd for the gradient
of a second evaluation. PyTorch's gradient is right by assumption.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "complex128": torch.complex128,
}
MOST_ELEMENTS = 4000  # samples with more are left out
LOOKED = 24  # samples whose gradient is 0 that are passed over, at most

Plant = Callable[[list[Tensor | None], list[Tensor]], list[Tensor | None]]


@dataclass(frozen=True, eq=False)
class Subject:
    """One operator at one sample: a function of tensors, and the tensors."""

    name: str
    sample: int
    dtype: str
    call: Callable[..., tuple[Tensor, ...]]
    inputs: tuple[Tensor, ...]
    smooth: tuple[bool, ...]  # which outputs have a gradient
    empty: bool  # no number in the inputs that vary, or in those outputs

    @property
    def varied(self) -> list[int]:
        """Which inputs a gradient is asked for."""
        return [i for i, t in enumerate(self.inputs) if t.requires_grad]


def operators(dtype: str) -> list[Any]:
    """The operators that have a gradient in ``dtype`` on the CPU."""
    real = DTYPES[dtype]
    return [
        op
        for op in op_db
        if op.supports_autograd
        and op.supports_dtype(real, "cpu")
        and real in op.supported_backward_dtypes("cpu")
    ]


def subjects(
    op: Any, dtype: str, most: int, seed: int, *, empty: bool = False
) -> Iterator[Subject]:
    """The first ``most`` samples that are small enough and have a gradient.

    Those where it is not 0 come first: of the others little can be seen. ``empty``:
    those without a single number in input or output instead.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  (what the database draws from)
    torch.manual_seed(seed)
    live: list[Subject] = []
    silent: list[Subject] = []
    samples = op.sample_inputs("cpu", DTYPES[dtype], requires_grad=True)
    for index, sample in enumerate(samples):
        if len(live) >= most or len(live) + len(silent) >= most + LOOKED:
            break
        made = _subject(op, sample, index, dtype)
        if made is not None and made.empty is empty:
            (live if empty or _moves(made) else silent).append(made)
    yield from [*live, *silent][:most]


def _moves(subject: Subject) -> bool:
    """Whether some gradient is more than rounding."""
    coarse = max(torch.finfo(subject.inputs[i].dtype).eps for i in subject.varied)
    with torch.random.fork_rng():
        outs = subject.call(*subject.inputs)
    ones = [torch.ones_like(t) * 0.75 for t in outs]
    rng = torch.get_rng_state()
    tensors = [t.detach() for t in subject.inputs]
    grads = pulled(subject, tensors, ones, rng)
    return any(
        g is not None and bool((g.abs() > 0.01 * coarse**0.5).any()) for g in grads
    )


def _subject(op: Any, sample: Any, index: int, dtype: str) -> Subject | None:
    given = (sample.input, tuple(sample.args), dict(sample.kwargs))
    leaves, shape = pytree.tree_flatten(given)
    slots = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    tensors = [leaves[i] for i in slots]
    if sum(t.numel() for t in tensors) > MOST_ELEMENTS:
        return None
    if not any(t.requires_grad for t in tensors):
        return None
    varies = [t.requires_grad for t in tensors]
    variant, wrapper = op.get_op(), op.gradcheck_wrapper
    finish = sample.output_process_fn_grad

    def call(*now: Tensor) -> tuple[Tensor, ...]:
        filled = list(leaves)
        for slot, tensor, moves in zip(slots, now, varies, strict=True):
            # Running statistics are written to: a rule must leave them alone.
            filled[slot] = tensor if moves else tensor.detach().clone()
        first, args, kwargs = pytree.tree_unflatten(filled, shape)
        out = finish(wrapper(variant, first, *args, **kwargs))
        return tuple(t for t in pytree.tree_leaves(out) if isinstance(t, Tensor))

    inputs = tuple(t.detach().clone().requires_grad_(t.requires_grad) for t in tensors)
    with torch.enable_grad(), torch.random.fork_rng():
        outs = call(*inputs)
    smooth = tuple(t.requires_grad for t in outs)
    if not any(smooth):
        return None
    # Statistics beside the output, which autograd has no gradient for, are no output.
    kept = [
        i
        for i, t in enumerate(outs)
        if t.requires_grad or not (t.is_floating_point() or t.is_complex())
    ]

    def chosen(*now: Tensor) -> tuple[Tensor, ...]:
        every = call(*now)
        return tuple(every[i] for i in kept)

    empty = not (
        sum(t.numel() for t in inputs if t.requires_grad)
        and sum(t.numel() for t in outs if t.requires_grad)
    )
    now_smooth = tuple(smooth[i] for i in kept)
    return Subject(op.full_name, index, dtype, chosen, inputs, now_smooth, empty)


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
            outs = subject.call(*tensors)
            fixed = [t for t, s in zip(outs, smooth, strict=True) if not s]
            ctx.mark_non_differentiable(*fixed)
            return outs if len(outs) > 1 else outs[0]

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *cotangents: Tensor) -> Any:
            grads = pulled(subject, ctx.saved_tensors, cotangents, ctx.drawn)
            if plant is not None:
                live = [c for c, s in zip(cotangents, smooth, strict=True) if s]
                grads = plant(grads, live)
            full: list[Tensor | None] = [None] * len(native)
            for i, g in zip(varied, grads, strict=True):
                full[i] = g
            return tuple(full)

    Operator.__name__ = Operator.__qualname__ = subject.name
    return Operator.apply


def pulled(
    subject: Subject,
    tensors: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    drawn: Tensor,
) -> list[Tensor | None]:
    """Autograd's gradients of the operator by the inputs that ask for one."""
    with torch.enable_grad(), torch.random.fork_rng():
        torch.set_rng_state(drawn)
        now = [t.detach() for t in tensors]
        for i in subject.varied:
            now[i].requires_grad_()
        outs = subject.call(*now)
        pairs = [
            (t, c)
            for t, c, s in zip(outs, cotangents, subject.smooth, strict=True)
            if s and t.requires_grad
        ]
        return list(
            torch.autograd.grad(
                [t for t, _ in pairs],
                [now[i] for i in subject.varied],
                [c for _, c in pairs],
                allow_unused=True,
            )
        )


def plain(subject: Subject) -> Callable[..., tuple[Tensor, ...]]:
    """The operator under autograd, with the outputs that have a gradient."""

    def fn(*tensors: Tensor) -> tuple[Tensor, ...]:
        outs = subject.call(*tensors)
        return tuple(t for t, s in zip(outs, subject.smooth, strict=True) if s)

    return fn
