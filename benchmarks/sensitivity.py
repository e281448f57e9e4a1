"""Is every planted error seen, at every size? The sweep that fast checks fail.

    python benchmarks/sensitivity.py [--full] [--dtypes float64,float32] [--seed 1]

Nine errors of a gradient (uniform 1 %, 5 % and 50 %, all zeros, one element, the last
1 %, alternating ±30 %, the mean of the cotangent, a permutation) in an elementwise
operation (sin) and in a row-wise one (softmax over rows of 64), from 16 entries to
1,000,000 (4,000,000 with --full). Printed for each: the verdict, the seconds, and how
many forwards and backwards the verdict took; for one element, the entry that was named.
A right rule stands beside them, which must pass.

In bfloat16 an error may be missed where the printed limit says that it would be.

Exit code 1 when an error was missed, when one element was named wrongly, or when the
right rule did not pass.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import gradproof
from gradproof.verdict import Verdict

SIZES = (16, 128, 1024, 16_384, 131_072, 1_000_000)
FULL = (4_000_000,)
ROW = 64  # entries of a row, from which on there are several rows

Wrong = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _one(right: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    out = right.clone().flatten()
    out[_which(out.numel())] *= 1.5
    return out.reshape(right.shape)


def _which(n: int) -> int:
    return 2 * n // 3


def _tail(right: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    out = right.clone().flatten()
    out[-max(1, out.numel() // 100) :] = 0
    return out.reshape(right.shape)


def _alternating(right: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    sign = torch.ones(right.numel(), dtype=right.dtype)
    sign[1::2] = -1
    return right * (1 + 0.3 * sign.reshape(right.shape))


def _permuted(right: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return right.flatten().roll(1).reshape(right.shape)


WRONG: dict[str, Wrong] = {
    "right": lambda right, _: right,
    "uniform 1 %": lambda right, _: right * 1.01,
    "uniform 5 %": lambda right, _: right * 1.05,
    "uniform 50 %": lambda right, _: right * 1.5,
    "all zeros": lambda right, _: torch.zeros_like(right),
    "one element": _one,
    "last 1 %": _tail,
    "alternating": _alternating,
    "mean of the cotangent": lambda right, g: right * 0 + g.mean(),
    "permutation": _permuted,
}


def operation(kind: str, wrong: Wrong) -> Any:
    """A Function of one tensor whose backward is spoiled by ``wrong``."""

    class Operation(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.sin() if kind == "sin" else x.softmax(-1)

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            if kind == "sin":
                return wrong(grad_output * x.cos(), grad_output)
            p = x.softmax(-1)
            inner = (grad_output * p).sum(-1, keepdim=True)
            return wrong(p * (grad_output - inner), grad_output)

    return Operation


def inputs(kind: str, n: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Standard normal numbers, in rows for the row-wise operation."""
    generator = torch.Generator().manual_seed(seed)
    shape = (n,) if kind == "sin" else (max(1, n // ROW), min(n, ROW))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def _name(x: torch.Tensor) -> str:
    left, index = _which(x.numel()), []
    for extent in reversed(x.shape):
        left, at = divmod(left, extent)
        index.append(at)
    return "[" + ", ".join(str(i) for i in reversed(index)) + "]"


def swept(kind: str, n: int, name: str, dtype: torch.dtype, seed: int) -> bool:
    """One line of the table; whether it is as it should be."""
    x = inputs(kind, n, dtype, seed)
    clock = time.perf_counter()
    report = gradproof.check(operation(kind, WRONG[name]), (x,), ways=False)
    taken = time.perf_counter() - clock
    if name == "right":
        good = report.verdict is Verdict.PASS
    else:
        good = report.verdict is Verdict.FAIL
    told = ""
    if name == "one element" and report.findings and report.findings[0].worst:
        told = report.findings[0].worst.place
        good &= told.endswith(_name(x))
    limit = report.detection_limit.get("uniform", float("nan"))
    if dtype is torch.bfloat16 and not good:
        told = f"limit {limit:.1g}"
        good = report.verdict is not Verdict.PASS or limit > 0.01
    calls = report.record.evaluations
    print(
        f"{kind:8} {str(dtype)[6:]:9} {x.numel():>8} {name:22} {report.verdict!s:9} "
        f"{taken:6.2f} s  {calls[0]:5d} forwards {calls[1]:4d} backwards  "
        f"{told}{'' if good else '   MISSED'}",
        flush=True,
    )
    return good


def main() -> int:
    """Run the sweep; 1 when something was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--dtypes", default="float64,float32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sizes", default="")
    parser.add_argument("--kinds", default="sin,softmax")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes = (*SIZES, *(FULL if options.full else ()))
    if options.sizes:
        sizes = tuple(int(float(n)) for n in options.sizes.split(","))
    lines = [
        swept(kind, n, name, getattr(torch, dtype), options.seed)
        for kind in options.kinds.split(",")
        for dtype in options.dtypes.split(",")
        for n in sizes
        for name in WRONG
    ]
    print(f"{sum(lines)} of {len(lines)} as they should be")
    return 0 if all(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
