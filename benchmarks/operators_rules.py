"""Rules made of PyTorch's own operators, right ones and ones with a planted error.

An operator of ``op_db`` and one of its samples become a ``torch.autograd.Function``: its
forward calls the operator without a graph, its backward asks autograd for the gradient
of a second evaluation. PyTorch's gradient is right by assumption.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "complex128": torch.complex128,
}
MOST_ELEMENTS = 10000  # samples with more are left out
LOOKED = 24  # samples that are looked at
INPUTS = 6  # numbers that vary, of which a sample has so many where there is such
REMEMBERED = 20000  # answers of one operator that are kept
BLOCK = 16  # numbers of one tensor that vary, or that are results, at most

Call = Callable[..., tuple[Tensor, ...]]
Plant = Callable[[list[Tensor | None], list[Tensor]], list[Tensor | None]]


@dataclass(frozen=True, eq=False)
class Subject:
    """One operator at one sample: a function of tensors, and the tensors."""

    name: str
    sample: int
    dtype: str
    call: Call
    inputs: tuple[Tensor, ...]
    smooth: tuple[bool, ...]  # which outputs have a gradient
    empty: bool  # no number in the inputs that vary, or in those outputs
    memo: dict[bytes, list[Tensor | None]] | None  # None where the operator draws

    @property
    def varied(self) -> list[int]:
        """Which inputs a gradient is asked for."""
        return [i for i, t in enumerate(self.inputs) if t.requires_grad]


@contextmanager
def cheap_seeds() -> Iterator[None]:
    """``torch.manual_seed`` without what it does for devices that are not there.

    The database seeds in every call of some operators, and each formats a stack trace
    for the GPU that might be asked for later.
    """
    with mock.patch("torch.manual_seed", torch.default_generator.manual_seed):
        yield


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
) -> list[Subject]:
    """At most ``most`` of the first ``LOOKED`` samples, those that show most first.

    First those whose gradient is not 0, for of the others little can be seen; of these
    those with ``INPUTS`` numbers that vary or more; then in an order drawn by ``seed``.
    ``empty``: those without a single number in input or output, in their order, instead.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  (what the database draws from)
    torch.manual_seed(seed)
    samples = op.sample_inputs("cpu", DTYPES[dtype], requires_grad=True)
    found = []
    for index, sample in enumerate(samples):
        made = _subject(op, sample, index, dtype)
        if made is not None and made.empty is empty:
            found.append(made)
        if len(found) == LOOKED:
            break
    if empty:
        return found[:most]
    random.Random(f"{op.full_name}{dtype}{seed}").shuffle(found)
    return sorted(found, key=_rank)[:most]


def _rank(subject: Subject) -> tuple[bool, bool]:
    some = sum(subject.inputs[i].numel() for i in subject.varied) >= INPUTS
    return not _moves(subject), not some


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
    inner, inputs = _part(chosen, inputs)
    memo: dict[bytes, list[Tensor | None]] | None = (
        {} if _settled(inner, inputs) else None
    )
    return Subject(op.full_name, index, dtype, inner, inputs, now_smooth, empty, memo)


def _part(call: Call, inputs: tuple[Tensor, ...]) -> tuple[Call, tuple[Tensor, ...]]:
    """The same function of ``BLOCK`` numbers of each tensor at most, the others fixed.

    A corner of every input that varies, and results that it moves.
    """
    corners = [_corner(t) if t.requires_grad else None for t in inputs]
    whole = [t.detach().clone() for t in inputs]

    def full(now: Sequence[Tensor]) -> list[Tensor]:
        out = list(now)
        for i, corner in enumerate(corners):
            if corner is not None:
                out[i] = whole[i].to(now[i].dtype, copy=True)
                out[i][corner] = now[i]
        return out

    few = tuple(
        t[corner].detach().clone().requires_grad_() if corner is not None else t
        for t, corner in zip(inputs, corners, strict=True)
    )
    with torch.no_grad(), torch.random.fork_rng():
        before = call(*full(few))
    moved = [t * (15 / 16) if t.requires_grad else t for t in few]
    with torch.no_grad(), torch.random.fork_rng():
        after = call(*full(moved))
    places = [_places(a, b) for a, b in zip(before, after, strict=True)]

    def part(*now: Tensor) -> tuple[Tensor, ...]:
        outs = call(*full(now))
        return tuple(
            t if at is None else t.reshape(-1)[at]
            for t, at in zip(outs, places, strict=True)
        )

    return part, few


def _settled(call: Call, inputs: tuple[Tensor, ...]) -> bool:
    """Whether the results are dense, and the same whatever the random state is."""
    found = []
    with torch.no_grad(), torch.random.fork_rng():
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            found.append(call(*inputs))
            if not torch.equal(torch.get_rng_state(), before):
                return False
    dense = all(t.layout is torch.strided for t in (*inputs, *found[0]))
    return dense and all(
        torch.equal(_plain(a), _plain(b)) for a, b in zip(*found, strict=True)
    )


def _plain(t: Tensor) -> Tensor:
    """Without NaN, and in a dtype in which tensors can be compared."""
    wide = t.to(torch.complex64) if t.dtype == torch.complex32 else t
    return wide.nan_to_num() if t.is_floating_point() else wide


def remembered(
    subject: Subject,
    ask: Callable[[], Sequence[Tensor | None]],
    given: Sequence[Tensor],
) -> list[Tensor | None]:
    """``ask()``, or what it gave when the same tensors were given: plants ask again."""
    if subject.memo is None:
        return list(ask())
    digest = hashlib.blake2b(digest_size=16)
    for t in given:
        digest.update(str(t.dtype).encode())
        digest.update(t.detach().reshape(-1).view(torch.uint8).numpy())
    key = digest.digest()
    if key not in subject.memo:
        if len(subject.memo) >= REMEMBERED:
            return list(ask())
        subject.memo[key] = [None if t is None else t.clone() for t in ask()]
    return [None if t is None else t.clone() for t in subject.memo[key]]


def _corner(t: Tensor) -> tuple[slice, ...] | None:
    """A block of at most ``BLOCK`` numbers, none of its sides longer than need be."""
    if t.numel() <= BLOCK or t.layout is not torch.strided:
        return None
    sides = list(t.shape)
    while np.prod(sides) > BLOCK:
        sides[int(np.argmax(sides))] -= 1
    return tuple(slice(side) for side in sides)


def _places(before: Tensor, after: Tensor) -> Tensor | None:
    """``BLOCK`` results, those that have moved first, in their order; None for all."""
    if before.numel() <= BLOCK or before.layout is not torch.strided:
        return None
    moved = (_plain(before) != _plain(after)).reshape(-1)
    order = torch.cat([moved.nonzero()[:, 0], (~moved).nonzero()[:, 0]])
    some = order[: max(BLOCK, int(moved.sum()))]
    spread = torch.linspace(0, len(some) - 1, BLOCK, dtype=torch.float64).long()
    return some[spread].sort().values


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
