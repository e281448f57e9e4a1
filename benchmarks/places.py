"""Is a wrong part of a large gradient named by its place? Planted regions, by operation.

Each line plants one region (a factor of 1.5 over the tail of a block, one row, one
column, one channel, one batch item, one head, a band, every second entry, one input of
five) in the gradient of one input, at sizes up to 1,000,000, and prints the headline and
what it took. Every operation comes twice: as it is, and opaque, when its forward refuses
any other shape or dtype. Run by ``benchmarks/sensitivity.py --places``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

import gradproof
from gradproof.verdict import Verdict

Plant = Callable[[Tensor], Tensor]


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def _five(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
    return a.sin() + b * c + d.tanh() * e + a.roll(1) * b


FORWARDS: dict[str, Callable[..., Tensor]] = {
    "sin": torch.sin,
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "matmul": torch.matmul,
    "attention": _attention,
    "conv": lambda x, w: F.conv2d(x, w, padding=1),
    "cumsum": lambda x: x.sin().flatten().cumsum(0),
    "five": _five,
}


def scaled(*index: Any) -> Plant:
    """One part multiplied by 1.5."""

    def plant(grad: Tensor) -> Tensor:
        out = grad.clone()
        out[index] *= 1.5
        return out

    return plant


def banded(reach: int) -> Plant:
    """The band |i − j| ≤ reach multiplied by 1.5."""

    def plant(grad: Tensor) -> Tensor:
        n, m = grad.shape[-2:]
        apart = (torch.arange(n)[:, None] - torch.arange(m)[None, :]).abs()
        return torch.where(apart <= reach, grad * 1.5, grad)

    return plant


def operation(kind: str, leaf: int, plant: Plant, *, opaque: bool) -> Any:
    """A Function whose gradient of input number ``leaf`` is spoiled by ``plant``."""
    given: list[Any] = []

    class Operation(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Tensor) -> Tensor:
            seen = [(x.shape, x.dtype) for x in xs]
            if not given:
                given.extend(seen)
            if opaque and seen != given:
                raise RuntimeError("built for other tensors")
            ctx.save_for_backward(*xs)
            return FORWARDS[kind](*xs)

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Any:
            xs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            with torch.enable_grad():
                out = FORWARDS[kind](*xs)
            grads = list(torch.autograd.grad(out, xs, grad_output))
            grads[leaf] = plant(grads[leaf])
            return tuple(grads)

    return Operation


class Case(NamedTuple):
    """A region that is planted, and its name."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    leaf: int
    plant: Plant
    name: str


def cases(n: int) -> Iterator[Case]:
    """The regions, in inputs of about ``n`` elements."""
    side = max(48, int(n**0.5) // 8 * 8)
    square = (side, side)
    tail = side - side % 5 - 3
    every = slice(None)
    for kind in ("sin", "softmax", "cumsum"):
        yield Case(
            kind, (square,), 0, scaled(every, slice(tail, None)), f"x[:, {tail}:]"
        )
        yield Case(kind, (square,), 0, scaled(17), "x[17, :]")
        yield Case(kind, (square,), 0, scaled(every, 5), "x[:, 5]")
        yield Case(kind, (square,), 0, scaled(every, slice(0, None, 2)), "x[:, 0::2]")
        yield Case(kind, (square,), 0, scaled(33, 7), "grad of x[33, 7]")
        yield Case(
            kind, (square,), 0, banded(1), "the band of width 3 along the diagonal of x"
        )
    norm = (square, (side,), (side,))
    yield Case("norm", norm, 0, scaled(every, slice(tail, None)), f"x[:, {tail}:]")
    yield Case("norm", norm, 1, scaled(17), "grad of w[17]")
    yield Case("norm", norm, 2, scaled(slice(tail, None)), f"b[{tail}:]")
    yield Case("matmul", (square, square), 0, scaled(11), "a[11, :]")
    yield Case("matmul", (square, square), 1, scaled(every, 9), "b[:, 9]")
    yield Case("matmul", (square, square), 1, scaled(9), "b[9, :]")
    yield Case("matmul", (square, square), 0, scaled(4, 9), "grad of a[4, 9]")
    rows = max(8, n // (2 * 4 * 32))
    heads = ((2, 4, min(512, rows), 32),) * 3
    yield Case("attention", heads, 0, scaled(1), "q[1, :, :, :]")
    yield Case("attention", heads, 1, scaled(every, 2), "k[:, 2, :, :]")
    yield Case("attention", heads, 2, scaled(..., slice(28, None)), "v[:, :, :, 28:]")
    yield Case("attention", heads, 1, scaled(1, 2, 3, 4), "grad of k[1, 2, 3, 4]")
    wide = max(8, int((n / 64) ** 0.5))
    image = ((4, 16, wide, wide), (8, 16, 3, 3))
    yield Case("conv", image, 0, scaled(2), "x[2, :, :, :]")
    yield Case("conv", image, 0, scaled(every, 3), "x[:, 3, :, :]")
    yield Case("conv", image, 1, scaled(every, 3), "w[:, 3, :, :]")
    for leaf, name in enumerate("abcde"):
        yield Case("five", ((n // 5,),) * 5, leaf, scaled(every), f"gradient of {name}")


NAMES = {
    "norm": ("x", "w", "b"),
    "matmul": ("a", "b"),
    "attention": ("q", "k", "v"),
    "conv": ("x", "w"),
    "five": tuple("abcde"),
}


def named(text: str, kind: str) -> str:
    """``text`` with the paths that the inputs have in the report."""
    for k, name in enumerate(NAMES.get(kind, ("x",))):
        text = text.replace(f"xs[{k}]", name)
    return text


def checked(case: Case, *, opaque: bool, dtype: torch.dtype, seed: int = 1) -> Any:
    """The report on it."""
    generator = torch.Generator().manual_seed(seed)
    xs = tuple(
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        for shape in case.shapes
    )
    function = operation(case.kind, case.leaf, case.plant, opaque=opaque)
    return gradproof.check(function, xs, ways=False)


def swept(n: int, dtype: torch.dtype, kinds: list[str], *, opaque: bool) -> list[bool]:
    """A line for each region; whether each was named."""
    lines = []
    for case in cases(n):
        if kinds and case.kind not in kinds:
            continue
        clock = time.process_time()
        report = checked(case, opaque=opaque, dtype=dtype)
        taken = time.process_time() - clock
        told = ""
        if report.findings:
            first = report.findings[0]
            place = first.worst.place if first.worst else ""
            told = named(f"{first.slug}: {first.headline}; {place}", case.kind)
        good = report.verdict is Verdict.FAIL and case.name in told
        calls = report.record.evaluations
        print(
            f"{case.kind:9} {'opaque' if opaque else '':6} {str(dtype)[6:]:8} "
            f"{case.name[:30]:30} {report.verdict!s:9} {taken:6.2f} s {calls[0]:5d} "
            f"forwards {calls[1]:3d} backwards  {told[:110]}{'' if good else '  MISSED'}",
            flush=True,
        )
        lines.append(good)
    return lines
