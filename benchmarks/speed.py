"""What a verdict costs: in units, in copies, in memory, and beside torch's gradcheck.

    python benchmarks/speed.py [--cases softplus-1e6-float32,...] [--repeats 3] [--list]
    python benchmarks/speed.py --all | --growth

A unit is one forward and one backward of the operation; a copy is one pass over inputs
and outputs at their own width. For each case, in a process of its own with one thread:
the medians of a unit, of the proof without the ways of asking and with them, the share
of each stage, and the extra memory at the peak. What the ways cost is told apart: how
often the operation itself is called and how long it takes in them, and by how much its
own slow paths (a strided input, another dtype) exceed its plain price. The small cases
are also asked of torch.autograd.gradcheck, slow and fast (in float64, which it needs).

Beside each number is its target: a verdict within 12 units and 40 copies, the ways within
12 units more, memory within 6 times the inputs and outputs and 64 MB, and 5 ms in all for
a handful of numbers. ``--growth`` prints the time of an element from 10⁴ of them to 10⁷,
which is to be flat within 1.5 from 10⁶ on, and never to rise.

Times are of the processor, not of the clock, so that other programs do not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch.nn.functional import softplus

from gradproof import adapters
from gradproof.proof import Options, prove

Forward = Callable[..., torch.Tensor]


@dataclass
class Calls:
    """The calls of the operation: forward or backward, in which path, seconds."""

    native: torch.dtype = torch.float64
    kept: list[tuple[str, str, float]] | None = None  # None: not counted

    def timed(self, kind: str, call: Forward, *tensors: torch.Tensor) -> Any:
        """``call`` at ``tensors``, counted."""
        if self.kept is None:
            return call(*tensors)
        clock = time.process_time()
        out = call(*tensors)
        self.kept.append((kind, self._path(tensors), time.process_time() - clock))
        return out

    def _path(self, tensors: tuple[torch.Tensor, ...]) -> str:
        if any(torch._C._functorch.is_legacy_batchedtensor(t) for t in tensors):
            return "batch of two"
        other = {t.dtype for t in tensors} - {self.native}
        if other or torch.is_autocast_enabled("cpu"):
            return "other dtype"
        if any(
            s == 0 and n > 1
            for t in tensors
            for s, n in zip(t.stride(), t.shape, strict=True)
        ):
            return "stride 0"
        return "packed" if all(t.is_contiguous() for t in tensors) else "strided"

    def count(self, kind: str) -> int:
        """How many forwards or backwards there were."""
        return sum(k == kind for k, _, _ in self.kept or ())

    def seconds(self) -> float:
        """What all of them took."""
        return sum(s for _, _, s in self.kept or ())

    def excess(self) -> dict[str, float]:
        """What the paths that are not packed took beyond as many that are, by path."""
        plain = {
            kind: statistics.median(
                [s for k, p, s in self.kept or () if (k, p) == (kind, "packed")]
                or [0.0]
            )
            for kind in ("forward", "backward")
        }
        out: dict[str, float] = {}
        for kind, path, seconds in self.kept or ():
            if path != "packed":
                expected = plain[kind] * (2 if path == "batch of two" else 1)
                out[path] = out.get(path, 0.0) + seconds - expected
        return out


CALLS = Calls()


def _custom(forward_: Forward, backward_: Callable[..., Any]) -> Any:
    class Operation(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(*xs)
            return CALLS.timed("forward", forward_, *xs)

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
            return CALLS.timed("backward", backward_, grad_output, *ctx.saved_tensors)

    return Operation


def _norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)
    return centred * scale * w + b


def _fused(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.native_layer_norm(x, x.shape[-1:], w, b, 1e-5)[0]


def _norm_back(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, _: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)
    unit = centred * scale
    inner = g * w
    mean = inner.mean(-1, keepdim=True)
    along = (inner * unit).mean(-1, keepdim=True)
    return scale * (inner - mean - unit * along), (g * unit).sum(0), g.sum(0)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def _attention_back(g: torch.Tensor, *qkv: torch.Tensor) -> Any:
    q, k, v = qkv
    scale = q.shape[-1] ** -0.5
    p = (q @ k.mT * scale).softmax(-1)
    inner = g @ v.mT
    inner = p * (inner - (inner * p).sum(-1, keepdim=True)) * scale
    return inner @ k, inner.mT @ q, p.mT @ g


SOFTPLUS = _custom(softplus, lambda g, x: g * x.sigmoid())
LOGADDEXP = _custom(
    lambda x: torch.logaddexp(x, torch.zeros_like(x)), lambda g, x: g * x.sigmoid()
)
NORM = _custom(_norm, _norm_back)
FUSED = _custom(_fused, _norm_back)
MATMUL = _custom(lambda a, b: a @ b, lambda g, a, b: (g @ b.mT, a.mT @ g))
SQUARE = _custom(lambda x: x * x, lambda g, x: 2 * g * x)
ATTENTION = _custom(_attention, _attention_back)

# Name: the Function, the shapes of its inputs, and whether gradcheck slow is bearable.
CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...], bool]] = {
    "softplus-8": (SOFTPLUS, ((8,),), True),
    "softplus-64": (SOFTPLUS, ((64,),), True),
    "softplus-4096": (SOFTPLUS, ((4096,),), True),
    "layernorm-32x256": (NORM, ((32, 256), (256,), (256,)), True),
    "attention-1x2x32x16": (ATTENTION, ((1, 2, 32, 16),) * 3, True),
    "softplus-1e4": (SOFTPLUS, ((10**4,),), False),
    "softplus-1e5": (SOFTPLUS, ((10**5,),), False),
    "softplus-1e6": (SOFTPLUS, ((10**6,),), False),
    "softplus-1e7": (SOFTPLUS, ((10**7,),), False),
    "logaddexp-1e6": (LOGADDEXP, ((10**6,),), False),
    "square-1e7": (SQUARE, ((10**7,),), False),
    "layernorm-4096x1024": (NORM, ((4096, 1024), (1024,), (1024,)), False),
    "fusednorm-4096x1024": (FUSED, ((4096, 1024), (1024,), (1024,)), False),
    "matmul-512": (MATMUL, ((512, 512),) * 2, False),
    "matmul-1024": (MATMUL, ((1024, 1024),) * 2, False),
    "attention-1x8x512x64": (ATTENTION, ((1, 8, 512, 64),) * 3, False),
}
USUAL = (
    "softplus-8-float64", "softplus-64-float64", "softplus-4096-float64", "layernorm-32x256-float64",
    "attention-1x2x32x16-float64", "softplus-1e6-float32", "softplus-1e6-float64",
    "layernorm-4096x1024-float32", "fusednorm-4096x1024-float32",
    "matmul-512-float32",
)  # fmt: skip
LARGE = (
    "softplus-1e6", "logaddexp-1e6", "layernorm-4096x1024", "fusednorm-4096x1024",
    "attention-1x8x512x64", "matmul-1024", "square-1e7",
)  # fmt: skip
DTYPES = ("float32", "float64", "bfloat16")
GROWTH = tuple(f"softplus-1e{power}-float32" for power in (4, 5, 6, 7))
SMALLEST = 100  # entries up to which a verdict is to be there in 5 ms


def _inputs(shapes: Any, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(shape, generator=generator).to(dtype).requires_grad_()
        for shape in shapes
    )


def _seconds(call: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        clock = time.process_time()
        call()
        taken.append(time.process_time() - clock)
    return statistics.median(taken)


def _unit(function: Any, xs: tuple[torch.Tensor, ...], repeats: int) -> float:
    def once() -> None:
        out = function.apply(*xs)
        torch.autograd.grad(out, xs, torch.ones_like(out))

    once()
    return _seconds(once, max(5, repeats))


def _copy(function: Any, xs: tuple[torch.Tensor, ...], repeats: int) -> float:
    moved = [t.detach() for t in (*xs, function.apply(*xs))]
    return _seconds(lambda: [t.clone() for t in moved], max(5, repeats))


def _proof(
    function: Any, xs: Any, *, ways: bool
) -> tuple[float, Any, dict[str, float]]:
    stages: list[tuple[str, float]] = []

    def tell(stage: str, _: float) -> None:
        stages.append((stage, time.process_time()))

    clock = time.process_time()
    rule = adapters.adapt(function, xs, {})
    record = prove(rule, Options(ways=ways, tell=tell))
    end = time.process_time()
    marks = [("adapting", clock), *stages, ("", end)]
    shares: dict[str, float] = {}
    for (name, at), (_, after) in pairwise(marks):
        shares[name] = shares.get(name, 0.0) + after - at
    return end - clock, record, shares


def one(name: str, repeats: int) -> dict[str, Any]:
    """Everything measured of one case, in this process."""
    torch.set_num_threads(1)
    case, _, dtype = name.rpartition("-")
    function, shapes, small = CASES[case]
    _proof(function, _inputs([(3,) * len(s) for s in shapes], torch.float64), ways=True)
    xs = _inputs(shapes, getattr(torch, dtype))
    unit, copy = _unit(function, xs, repeats), _copy(function, xs, repeats)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lean = [_proof(function, xs, ways=False)]
    narrow = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    first = _proof(function, xs, ways=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    lean += [_proof(function, xs, ways=False) for _ in range(repeats - 1)]
    full = [first] + [_proof(function, xs, ways=True) for _ in range(repeats - 1)]
    end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    ways = _ways(function, xs)
    native = sum(t.numel() * t.element_size() for t in (*xs, function.apply(*xs)))
    lean.sort(key=lambda run: run[0])
    out: dict[str, Any] = {
        "verdict": str(first[1].verdict),
        "unit": unit,
        "copy": copy,
        "lean": lean[len(lean) // 2][0],
        "full": statistics.median(run[0] for run in full),
        "ways": ways,
        "stages": lean[len(lean) // 2][2],
        "narrow": narrow * 1024,
        "peak": peak * 1024,
        "grown": (end - peak) * 1024,
        "entries": sum(t.numel() for t in xs),
        "native": native,
        "limits": {a.structure: a.value for a in first[1].limits},
        "compared": first[1].compared,
    }
    check = torch.autograd.gradcheck
    if small and dtype == "float64":
        out["slow"] = _seconds(lambda: check(function.apply, xs), 1)
    if dtype == "float64":
        out["fast"] = _seconds(lambda: check(function.apply, xs, fast_mode=True), 3)
    return out


def _ways(function: Any, xs: Any) -> dict[str, Any]:
    """The operation's own share of what the ways cost, in calls and seconds."""
    CALLS.native = xs[0].dtype
    runs = []
    for ways in (False, True):
        CALLS.kept = []
        _proof(function, xs, ways=ways)
        runs.append(replace(CALLS))
        CALLS.kept = None
    lean, full = runs
    slow = {
        path: seconds - lean.excess().get(path, 0.0)
        for path, seconds in full.excess().items()
    }
    return {
        "forwards": full.count("forward") - lean.count("forward"),
        "backwards": full.count("backward") - lean.count("backward"),
        "own": full.seconds() - lean.seconds(),
        "slow": slow,
    }


def told(name: str, m: dict[str, Any]) -> None:
    """Print one case."""
    units = m["lean"] / m["unit"]
    small = m["entries"] <= SMALLEST
    room = 5e-3 if small else 12 * m["unit"] + 40 * m["copy"]
    target = "5 ms" if small else "(12 units + 40 copies)"
    fits = 6 * m["native"] + 64e6
    print(
        f"{name:30} {m['verdict']:9} unit {m['unit'] * 1e3:.3f} ms, copy "
        f"{m['copy'] * 1e3:.3f} ms; verdict {m['lean'] * 1e3:.1f} ms = {units:.0f} "
        f"units, {m['lean'] / room:.2f} × {target}; all ways "
        f"{(m['full'] - m['lean']) / m['unit']:.0f} units more"
    )
    print(
        f"{'':30} peak memory without the ways {m['narrow'] / 1e6:.0f} MB = "
        f"{m['narrow'] / m['native']:.1f} × native, {m['narrow'] / fits:.2f} × "
        f"(6 × native + 64 MB); with them {m['peak'] / 1e6:.0f} MB = "
        f"{m['peak'] / m['native']:.1f} × native, {m['peak'] / fits:.2f} ×; "
        f"{m['grown'] / 1e6:.0f} MB more after repeats"
    )
    ways, unit = m["ways"], m["unit"]
    slow = ", ".join(f"{k} {v / unit:.1f}" for k, v in ways["slow"].items())
    apart = sum(max(0.0, v) for v in ways["slow"].values())
    print(
        f"{'':30} ways, units: {(m['full'] - m['lean'] - apart) / unit:.1f} (12) without "
        f"the operation's own slow paths ({slow}); {ways['forwards']} forwards and "
        f"{ways['backwards']} backwards, {ways['own'] / unit:.1f} in all"
    )
    share = ", ".join(f"{k} {v * 1e3:.1f}" for k, v in m["stages"].items())
    print(f"{'':30} stages, ms: {share}")
    limits = ", ".join(f"{k} {v:.1e}" for k, v in m["limits"].items())
    print(f"{'':30} {m['compared']}; limits: {limits}")
    for mode in ("slow", "fast"):
        if mode in m:
            print(
                f"{'':30} gradcheck {mode}: {m[mode] * 1e3:.1f} ms, "
                f"{m[mode] / m['lean']:.2f} × the verdict"
            )
    sys.stdout.flush()


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(USUAL))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{case}-DTYPE" for case in CASES))
        return 0
    if options.one:
        print(json.dumps(one(options.one, options.repeats)))
        return 0
    names = options.cases.split(",")
    if options.all:
        names = [*USUAL, *(f"{case}-{dtype}" for case in LARGE for dtype in DTYPES)]
    if options.growth:
        names = list(GROWTH)
    last: dict[str, float] = {}
    for name in dict.fromkeys(names):
        seen = _alone(name, options.repeats)
        told(name, seen)
        if options.growth:
            last = _grown(seen, last)
    return 0


def _alone(name: str, repeats: int) -> dict[str, Any]:
    """One case in a process of its own, whose peak of memory is of nothing else."""
    command = [sys.executable, __file__, "--one", name, "--repeats", str(repeats)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    out: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return out


def _grown(seen: dict[str, Any], last: dict[str, float]) -> dict[str, float]:
    """Print the time of an element, beside that of the size before."""
    each = {k: seen[k] / seen["entries"] for k in ("lean", "full")}
    said = [
        f"{each[k] * 1e9:.0f} ns an element {what}"
        + (f" ({each[k] / last[k]:.2f} × that of the size before)" if last else "")
        for k, what in (("lean", "without the ways"), ("full", "with them"))
    ]
    print(f"{'':30} {', '.join(said)}", flush=True)
    return each


if __name__ == "__main__":
    sys.exit(main())
