"""What half precision cannot show accuses nobody, and hides no more than is said."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

import gradproof
from gradproof import Verdict


def rule(formula, *, opaque=None, factor=1.0, zero=False):
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
            if zero:
                return torch.zeros_like(x)
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                return factor * torch.autograd.grad(formula(x), x, g)[0]

    return Rule


def judged(fn, x):
    return gradproof.check(fn, x, ways=False)


def steps_towards_a_pole(x):
    return torch.trunc(-8.4766 / x)


def test_fine_steps_beside_a_pole_accuse_nobody():
    x = torch.tensor([-0.061], dtype=torch.float16)
    right = judged(rule(steps_towards_a_pole, opaque=torch.float16, zero=True), x)
    assert right.verdict is not Verdict.FAIL, str(right)


def sawtooth(x):
    return torch.fmod(torch.full_like(x, -4.1), x)


def test_a_sawtooth_beside_its_jump_is_no_noise():
    x = torch.tensor([-0.2168, 2.89, -7.03, 4.28], dtype=torch.bfloat16)
    right = judged(rule(sawtooth, opaque=torch.bfloat16), x)
    assert right.verdict is not Verdict.FAIL, str(right)


BIG = torch.tensor([6.3, 2.0, 1.5], dtype=torch.float16)


def eighth(x):
    return x.double() ** 8


@pytest.mark.parametrize("opaque", [None, torch.float16])
def test_infinity_is_the_gradient_that_the_dtype_cannot_hold(opaque):
    """The derivative at 6.3 is 3e6, and the largest float16 is 65504."""
    right = judged(rule(eighth, opaque=opaque), BIG)
    assert right.verdict is not Verdict.FAIL, str(right)


@pytest.mark.parametrize("opaque", [None, torch.float16])
def test_and_none_that_it_can_hold(opaque):
    def infinite(x):
        return x.double() ** 2

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            if opaque not in (None, x.dtype):
                raise TypeError(f"only {opaque}")
            ctx.save_for_backward(x)
            return infinite(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            out = 2 * x * g
            out[0] = out[0] * torch.inf
            return out.to(x.dtype)

    wrong = judged(Rule, BIG)
    assert wrong.verdict is Verdict.FAIL, str(wrong)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_above_the_limit_is_not_excused_by_rounding(dtype):
    """Rounding at random moves 1.2 by a unit, and that is in the limit already."""
    x = torch.tensor([1.5, -2.25, 3.0, 0.75], dtype=dtype)
    right = judged(rule(torch.neg, opaque=dtype), x)
    assert right.verdict is Verdict.PASS, str(right)
    delta = 1.2 * right.detection_limit["uniform"]
    wrong = judged(rule(torch.neg, opaque=dtype, factor=1 + delta), x)
    assert wrong.verdict is Verdict.FAIL, str(wrong)
