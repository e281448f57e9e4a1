"""The vjp of a program whose forward runs inside an autocast region."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from torch import Tensor

from gradproof.adapters.torch_compare import furthest, largest
from gradproof.adapters.torch_program import Program
from gradproof.adapters.torch_tensors import dense

Grads = list[Tensor | None]

# A gradient that moves this many times further under autocast than it does when its
# inputs are rounded to bfloat16 is no matter of rounding.
_EXCUSE = 8.0
_SHAKES = 4
_UNIT = 2.0**-8  # of bfloat16


class NotUnderAutocast(Exception):
    """The forward does not run in float32, or not in an autocast region."""


def under_autocast(
    program: Program,
    leaves: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    known: Grads | None = None,
) -> Grads:
    """Gradients as a training step under autocast gets them: only forward inside it.

    float64 is float32 here, for autocast leaves float64 alone; what float32 itself makes
    of the question (1e300 is inf there, 1 - 1e-8 is 1) is not held against autocast.
    Where x̄ moves as much when x is rounded to bfloat16 (a relu next to its kink, a sum
    that cancels), rounding is all there is to see, and the entry is that without autocast.
    ``known`` are the gradients without autocast, where somebody has them.

    Raises:
        NotUnderAutocast: when already the forward raises.
        Exception: what the backward raises.
    """
    still = [_narrow(t) for t in leaves]
    native = all(a.dtype is b.dtype for a, b in zip(leaves, still, strict=True))
    try:
        plain = known if native else None
        plain = plain or _pulled(program, still, cotangents)
    except Exception as error:
        raise NotUnderAutocast from error
    fresh = [t.clone().requires_grad_() for t in still]
    program.state.again()
    try:
        with torch.autocast(_device(still), dtype=torch.bfloat16):
            outs = _outputs(program, fresh)
    except Exception as error:
        raise NotUnderAutocast from error
    got = _pull(outs, fresh, cotangents)
    if any(_differs(g, p) for g, p in zip(got, plain, strict=True)):
        got = _unexcused(program, still, cotangents, got, plain)
    if native:
        return got
    exact = known or _pulled(program, [t.detach() for t in leaves], cotangents)
    return [_put(g, p, e) for g, p, e in zip(got, plain, exact, strict=True)]


def _put(
    got: Tensor | None, plain: Tensor | None, exact: Tensor | None
) -> Tensor | None:
    """``got``, with ``exact`` where it is ``plain`` to a rounding, or float32 fails."""
    if got is None or plain is None or exact is None:
        return got
    room = _UNIT * plain.abs()
    same = ((got.to(plain.dtype) - plain).abs() <= room) | ~plain.isfinite()
    return torch.where(same, exact, got.to(exact.dtype))


def _device(leaves: Sequence[Tensor]) -> str:
    return next((t.device.type for t in leaves if t.device.type != "cpu"), "cpu")


def _narrow(t: Tensor) -> Tensor:
    t = t.detach()
    return t.float() if t.dtype is torch.float64 else t


def _outputs(program: Program, leaves: list[Tensor]) -> list[Tensor]:
    return [t for _, t in program.outputs(leaves)]


def _pull(
    outs: list[Tensor], leaves: list[Tensor], cotangents: Sequence[Tensor]
) -> Grads:
    pairs = [
        (t, c.to(t.dtype))
        for t, c in zip(outs, cotangents, strict=True)
        if t.requires_grad
    ]
    if not pairs:
        return [None] * len(leaves)
    grads: tuple[Tensor | None, ...] = torch.autograd.grad(
        [t for t, _ in pairs], leaves, [c for _, c in pairs], allow_unused=True
    )
    return [None if g is None else dense(g) for g in grads]


def _pulled(
    program: Program, values: Sequence[Tensor], cotangents: Sequence[Tensor]
) -> Grads:
    """The vjp outside autocast."""
    leaves = [t.clone().requires_grad_() for t in values]
    program.state.again()
    return _pull(_outputs(program, leaves), leaves, cotangents)


def _differs(got: Tensor | None, plain: Tensor | None) -> bool:
    """Whether an entry is off by more than a rounding of the largest entry."""
    if got is None or plain is None:
        return (got is None) != (plain is None)
    if not plain.numel():
        return False
    got = got.to(plain.dtype)
    top = inf if plain.is_complex() else largest(plain)
    if top < inf and furthest(got, plain) <= _UNIT * top:
        return False
    finite = plain[plain.isfinite()].abs()
    room = _UNIT * float(finite.max()) if finite.numel() else 0.0
    return bool((~((got - plain).abs() <= room) & ~(got == plain)).any())


def _unexcused(
    program: Program,
    still: list[Tensor],
    cotangents: Sequence[Tensor],
    got: Grads,
    plain: Grads,
) -> Grads:
    """``got``, with ``plain`` in the entries that rounding explains."""
    generator = torch.Generator().manual_seed(0)
    spread = [None if p is None else torch.zeros_like(p) for p in plain]
    for _ in range(_SHAKES):
        moved = [t * (1 + _UNIT * _signs(t, generator)) for t in still]
        near = _pulled(program, moved, cotangents)
        spread = [
            s if s is None or n is None or p is None else torch.fmax(s, (n - p).abs())
            for s, n, p in zip(spread, near, plain, strict=True)
        ]
    out: Grads = []
    for g, p, s in zip(got, plain, spread, strict=True):
        if g is None or p is None or s is None:
            out.append(g)
            continue
        g = g.to(p.dtype)
        out.append(torch.where((g - p).abs() <= _EXCUSE * s, p, g))
    return out


def _signs(t: Tensor, generator: torch.Generator) -> Tensor:
    """-1, 0 or 1 for each entry of ``t``."""
    return torch.randint(-1, 2, t.shape, generator=generator).to(t)
