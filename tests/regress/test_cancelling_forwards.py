"""Forwards of which cancellation leaves few digits: stairs, whose slope nobody means."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

import gradproof
from gradproof import Verdict

PLACE = torch.Generator().manual_seed(0)
HALVES = [torch.float16, torch.bfloat16]


def uniform(low, high, n=8):
    draw = torch.rand(n, generator=PLACE, dtype=torch.float64)
    return low + (high - low) * draw


FORMULAS = {
    "(cosh x - 1) / x": (lambda x: (torch.cosh(x) - 1) / x, uniform(0.012, 0.02)),
    "(1 - cos x) / x^2": (lambda x: (1 - torch.cos(x)) / x**2, uniform(0.002, 0.02)),
    "log(1 + x) - x": (lambda x: torch.log(1 + x) - x, uniform(0.001, 0.02)),
    "exp x - 1 - x": (lambda x: torch.exp(x) - 1 - x, uniform(0.001, 0.02)),
    "x - sin x": (lambda x: x - torch.sin(x), uniform(0.002, 0.02)),
    "tanh x - x": (lambda x: torch.tanh(x) - x, uniform(0.01, 0.05)),
    "x + 1000 - 1000": (lambda x: (x + 1000) - 1000, uniform(0.1, 1)),
    "(x + 100)^2": (lambda x: (x + 100) ** 2 - 10000 - 200 * x, uniform(0.1, 1)),
    "E x^2 - (E x)^2": (
        lambda x: ((x * x).mean() - x.mean() ** 2).reshape(1),
        uniform(100, 101),
    ),
}


def differentiated(formula, x, g):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(formula(x), x, g)[0]


def rule(formula, *, stably=True, factor=1.0, opaque=None):
    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            if opaque not in (None, x.dtype):
                raise TypeError(f"only {opaque}")
            ctx.save_for_backward(x)
            return formula(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            if not stably:
                return factor * differentiated(formula, x, g)
            return (factor * differentiated(formula, x.double(), g.double())).to(x)

    return Rule


def judged(name, dtype, **how):
    formula, x = FORMULAS[name]
    return gradproof.check(rule(formula, **how), x.to(dtype), ways=False)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_right_gradient_is_not_accused(name, dtype):
    report = judged(name, dtype)
    assert report.verdict is not Verdict.FAIL, str(report)


def test_nor_where_it_is_one_of_many():
    formula, _ = FORMULAS["(cosh x - 1) / x"]
    x = uniform(0.012, 0.02, 50).float()
    assert gradproof.check(rule(formula), x, ways=False).verdict is Verdict.PASS


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", list(FORMULAS)[:3])
def test_nor_is_one_that_cancels_as_the_forward_does(name, dtype):
    report = judged(name, dtype, stably=False)
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize("factor", [1.1, -1.0])
@pytest.mark.parametrize("name", list(FORMULAS)[:2])
def test_a_wrong_one_is_found_all_the_same(name, factor):
    dtype = torch.float32 if factor < 0 else torch.float16
    report = judged(name, dtype, factor=factor)
    assert report.verdict is Verdict.FAIL, str(report)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["(cosh x - 1) / x", "x + 1000 - 1000"])
def test_where_nothing_can_be_lifted_the_native_stairs_accuse_nobody(name, dtype):
    report = judged(name, dtype, opaque=dtype)
    assert report.verdict is not Verdict.FAIL, str(report)
    wrong = judged(name, dtype, opaque=dtype, factor=-1.0)
    assert wrong.verdict is not Verdict.PASS, str(wrong)


def test_the_same_is_seen_in_float64():
    name = "(1 - cos x) / x^2"
    assert judged(name, torch.float64, stably=False).verdict is Verdict.PASS
    wrong = judged(name, torch.float64, stably=False, factor=1.1)
    assert wrong.verdict is Verdict.FAIL


def test_a_gradient_that_cancels_where_its_forward_does_not_is_accused():
    class Std(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return (x - x.mean()).square().mean().sqrt().reshape(1)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            var = ((x * x).mean() - x.mean() ** 2).clamp(min=1e-12)
            return g * (x - x.mean()) / (x.numel() * var.sqrt())

    x = (uniform(-1, 1) + 3000).float()
    assert gradproof.check(Std, x, ways=False).verdict is Verdict.FAIL
