"""A fixed sample of PyTorch's operators: no right gradient is accused."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import operators as bench
    from operators_function import rule
    from operators_rules import operators, subjects

OPERATORS = (
    "abs", "acos", "add", "amax", "atan2", "bmm", "cat", "clamp", "copysign", "cos",
    "cumprod", "cumsum", "diag_embed", "div.no_rounding_mode", "dot", "erf", "exp",
    "expand", "gather", "index_select", "kron", "lerp", "linalg.det", "log", "log_softmax",
    "logaddexp", "logsumexp", "masked_fill", "matmul", "mul", "nn.functional.gelu",
    "nn.functional.silu", "prod", "reciprocal", "rsqrt", "sgn", "sigmoid", "sin",
    "split_with_sizes", "sqrt", "sum", "tanh", "where",
)  # fmt: skip


def each(dtype):
    """The smallest of the first three samples of each."""
    table = {op.full_name: op for op in operators(dtype)}
    for name in OPERATORS:
        some = subjects(table[name], dtype, 3, 0)
        yield min(some, key=lambda s: sum(t.numel() for t in s.inputs))


def test_no_right_gradient_is_accused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in ("float64", "float32"):
            for subject in each(dtype):
                report = bench.check(rule(subject, opaque=False), subject, 0)
                assert report.verdict != "FAIL", f"{subject.name} {dtype}\n{report}"


def test_a_tenth_more_of_it_is():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for subject in list(each("float64"))[::4]:
            fn = rule(subject, opaque=False, plant=bench.whole(0.1))
            report = bench.check(fn, subject, 0)
            assert report.verdict != "PASS", f"{subject.name}\n{report}"
