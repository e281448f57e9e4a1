"""Is every planted error seen, at every size? The sweep that fast checks fail.

    python benchmarks/sensitivity.py [--full] [--dtypes float64,float32] [--seed 1]
    python benchmarks/sensitivity.py --places [--sizes 1e6] [--kinds softmax,conv]

Nine errors of a gradient (uniform 1 %, 5 % and 50 %, all zeros, one element, the last
1 %, alternating ±30 %, the mean of the cotangent, a permutation) in an elementwise
operation (sin) and in row-wise ones (softmax and LayerNorm over rows of 64), from 16
entries to 1,000,000 (4,000,000 with --full). Printed for each: the verdict, the seconds
of the processor, how many forwards and backwards the verdict took, and the units that
these are (of one forward and one backward, as timed); for one element, the entry that
was named. A right rule stands beside them, which must pass. From 100,000 entries on a
wrong one is to be named within 40 units. With --places see ``places.py``.

In bfloat16 an error may be missed where the printed limit says that it would be.

Exit code 1 when an error was missed, when one element was named wrongly or took more
than 40 units, when a place was not named, or when the right rule did not pass.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import places
import torch

import gradproof
from gradproof.verdict import Verdict

SIZES = (16, 128, 1024, 16_384, 131_072, 1_000_000)
FULL = (4_000_000,)
ROW = 64  # entries of a row, from which on there are several rows
LARGE = 100_000  # entries from which the target of one wrong entry holds
UNITS = 40.0

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


FORWARDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sin": torch.sin,
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
}


def operation(kind: str, wrong: Wrong) -> Any:
    """A Function of one tensor whose backward is spoiled by ``wrong``."""

    class Operation(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return FORWARDS[kind](x)

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            if kind == "sin":
                return wrong(grad_output * x.cos(), grad_output)
            if kind == "norm":
                with torch.enable_grad():
                    x = x.detach().requires_grad_()
                    (right,) = torch.autograd.grad(FORWARDS[kind](x), x, grad_output)
                return wrong(right, grad_output)
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


def once(op: Any, x: torch.Tensor) -> tuple[float, float]:
    """Seconds of one forward, and of one forward and backward; the best of three."""
    forwards, both = [], []
    for _ in range(3):
        given = x.clone().requires_grad_()
        clock = time.process_time()
        out = op.apply(given)
        forwards.append(time.process_time() - clock)
        out.backward(torch.ones_like(out))
        both.append(time.process_time() - clock)
    return min(forwards), min(both)


def swept(kind: str, n: int, name: str, dtype: torch.dtype, seed: int) -> bool:
    """One line of the table; whether it is as it should be."""
    x, op = inputs(kind, n, dtype, seed), operation(kind, WRONG[name])
    clock = time.process_time()
    report = gradproof.check(op, (x,), ways=False)
    taken = time.process_time() - clock
    wanted = Verdict.PASS if name == "right" else Verdict.FAIL
    good, told = report.verdict is wanted, ""
    calls = report.record.evaluations
    forward, both = once(op, x)
    units = (calls[0] * forward + calls[1] * (both - forward)) / both
    if name == "one element" and report.findings and report.findings[0].worst:
        told = report.findings[0].worst.place
        good &= told.endswith(_name(x)) and (n < LARGE or units <= UNITS)
    limit = report.detection_limit.get("uniform", float("nan"))
    if dtype is torch.bfloat16 and not good:
        told = f"limit {limit:.1g}"
        good = report.verdict is not Verdict.PASS or limit > 0.01
    print(
        f"{kind:8} {str(dtype)[6:]:9} {x.numel():>8} {name:22} {report.verdict!s:9} "
        f"{taken:6.2f} s  {calls[0]:5d} forwards {calls[1]:4d} backwards {units:6.1f} "
        f"units  {told}{'' if good else '   MISSED'}",
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
    parser.add_argument("--kinds", default="")
    parser.add_argument("--places", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes = (*SIZES, *(FULL if options.full else ()))
    if options.sizes:
        sizes = tuple(int(float(n)) for n in options.sizes.split(","))
    kinds = [k for k in options.kinds.split(",") if k]
    if options.places:
        placed = [
            good
            for n in (sizes if options.sizes else sizes[-1:])
            for opaque in (False, True)
            for good in places.swept(n, torch.float64, kinds, opaque=opaque)
        ]
        print(f"{sum(placed)} of {len(placed)} named")
        return 0 if all(placed) else 1
    lines = [
        swept(kind, n, name, getattr(torch, dtype), options.seed)
        for kind in kinds or FORWARDS
        for dtype in options.dtypes.split(",")
        for n in sizes
        for name in WRONG
    ]
    print(f"{sum(lines)} of {len(lines)} as they should be")
    return 0 if all(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
