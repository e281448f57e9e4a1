"""What is too large to be formed: wrong parts are named at once, right rules are not accused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_bulk import DTYPES, OPS, _function, _inputs

import gradproof
from gradproof import adapters
from gradproof.checks import bulk
from gradproof.checks.accusing import accused
from gradproof.checks.bulk import Question
from gradproof.checks.gradient import Compared
from gradproof.checks.naming import cleared
from gradproof.diagnosis.slices import call, named
from gradproof.verdict import Block, Code, Estimate, Probe, Verdict

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import places

CASES = [
    c for c in places.cases(2500) if c.kind in ("norm", "matmul", "attention", "conv")
]
UNITS = 40  # of one forward and one backward, which takes two of them or more


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.kind} {c.name}")
def test_a_part_of_one_input_is_named_by_its_place(case: places.Case) -> None:
    report = places.checked(case, opaque=True, dtype=torch.float64)
    assert report.verdict is Verdict.FAIL
    first = report.findings[0]
    assert first.worst is not None
    assert case.name in places.named(
        f"{first.headline}; {first.worst.place}", case.kind
    )
    forwards, backwards = report.record.evaluations
    assert forwards + 2 * backwards <= 3 * UNITS


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_a_right_rule_is_accused_of_nothing(name: str, dtype: torch.dtype) -> None:
    rule = adapters.adapt(_function(name), _inputs(name, dtype), {})
    on_arrays = rule.bulk()
    assert on_arrays is not None
    question = Question(on_arrays, np.random.default_rng(0))
    bulk.agreed(question)
    assert question.probes is not None
    assert accused(question, rule.primal.point) is None


def _wrong(name: str) -> Any:
    return _function(name, lambda gs: [1.01 * gs[0], *gs[1:]])


@pytest.mark.parametrize("name", OPS)
def test_its_wrong_twin_is(name: str) -> None:
    rule = adapters.adapt(_wrong(name), _inputs(name, torch.float64), {})
    on_arrays = rule.bulk()
    assert on_arrays is not None
    question = Question(on_arrays, np.random.default_rng(0))
    assert not bulk.agreed(question)
    found = accused(question, rule.primal.point)
    assert found is not None
    first = rule.primal.domain.leaves[0]
    assert found.probe.wrong[first.slice].any()
    assert not found.probe.wrong[first.size :].any()
    assert all(place.path == first.path for place in found.located)


class Leaking(torch.autograd.Function):
    """Rows that look independent: a little of the first row's end is in every other."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin() + 1e-30 * x[0, -1]

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        out = g * x.cos()
        out[0, -1] += 1e-30 * g.sum()
        return out


def test_what_the_structure_hides_is_no_error() -> None:
    x = torch.randn(90, 64, generator=torch.Generator().manual_seed(2)).double()
    assert gradproof.check(Leaking, (x,), ways=False).verdict is Verdict.PASS


class Steep(torch.autograd.Function):
    """Its gradient, for two cotangents at once, is beyond what float16 can hold."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 30_000

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 30_000


def test_what_a_dtype_cannot_hold_breaks_no_law() -> None:
    x = torch.linspace(0.25, 0.75, 32, dtype=torch.float16)
    report = gradproof.check(Steep, (x,), ways=False)
    assert "nonlinear-cotangent" not in {f.slug for f in report.findings}, report


def _block(value: float, rows: list[int]) -> Block:
    """One column of a Jacobian, measured thoroughly."""
    one = np.ones((len(rows), 1))
    nan, zero = one * np.nan, one * 0.0
    return Block(
        np.array(rows), np.array([1]), value * one, value * one, zero, 1e-9 * one,
        zero.astype(np.int8), zero, nan, nan,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("block", "stands"),
    [
        (_block(1.0, [0, 1]), False),
        (_block(1.0, [0]), True),
        (_block(4.0, [0, 1]), True),
    ],
    ids=["a thorough look clears it", "a row is missing", "it is wrong"],
)
def test_what_a_thorough_look_clears_is_not_accused(block: Block, stands: bool) -> None:
    # A quick look at sin(x) where a step is many periods long takes 2 for what is 5.
    code = np.array([Code.OK, Code.OK, Code.OK], np.int8)
    of = Estimate(np.full(3, 2.0), np.zeros(3), np.full(3, 0.1), np.zeros(3), code)
    probe = Probe(np.ones(3), np.array([2.0, 3.0]), np.full(3, 5.0), of, np.zeros(3))
    (out,) = cleared([probe], Compared(point=np.ones(3)), block, np.array([1]))
    assert out.wrong.any() == stands
    assert stands or (out.expected.code == Code.NOISE).all()


def test_a_run_that_ends_within_a_line_is_named() -> None:
    mask = np.zeros((6, 8), bool)
    mask.ravel()[29:] = True
    found = named(mask)
    assert found is not None
    assert (call("x", found), found.kind) == ("x.flatten()[29:]", "tail")
    mask.ravel()[40:] = False
    found = named(mask)
    assert found is not None
    assert call("x", found) == "x.flatten()[29:40]"
    mask.ravel()[35] = False
    assert named(mask) is None
