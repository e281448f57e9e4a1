"""Gradients where an input is infinite, as a masked score is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import Function

import gradproof
from gradproof import Verdict
from gradproof.checks.gradient import Compared
from gradproof.checks.infinite import DECIDE, DETAIL, WHERE, untested
from gradproof.verdict import Block, Code

INF, NAN = float("inf"), float("nan")


def scores(*shape):
    torch.manual_seed(0)
    x = torch.randn(*shape, dtype=torch.float64)
    x.view(-1)[[1, 3]] = -INF
    return x


def softmax_grad(g, x):
    y = torch.softmax(x, -1)
    return y * (g - (g * y).sum(-1, keepdim=True))


def sigmoid_grad(g, x):
    return g * torch.sigmoid(x) * torch.sigmoid(-x)


CASES = {
    "softmax": (lambda x: torch.softmax(x, -1), softmax_grad, scores(2, 4)),
    "sigmoid": (torch.sigmoid, sigmoid_grad, scores(6)),
    "sigmoid at +inf": (torch.sigmoid, sigmoid_grad, -scores(6)),
    "tanh": (torch.tanh, lambda g, x: g * (1 - torch.tanh(x) ** 2), -scores(6)),
    "atan": (torch.atan, lambda g, x: g / (1 + x * x), scores(6)),
    "exp": (torch.exp, lambda g, x: g * torch.exp(x), scores(6)),
    "clamp": (lambda x: x.clamp(-1, 1), lambda g, x: g * (x.abs() < 1), scores(6)),
}


def judged(name, at_infinity=None, dtype=torch.float64):
    forward, backward, x = CASES[name]

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            out = backward(g, x)
            if at_infinity is None:
                return out
            return torch.where(x.isinf(), at_infinity * g.sum(), out)

    return gradproof.check(Rule, x.to(dtype), ways=False)


@pytest.mark.parametrize("name", CASES)
def test_a_right_gradient_of_0_passes(name):
    report = judged(name)
    assert report.verdict is Verdict.PASS, str(report)


def test_in_a_narrow_dtype_too():
    assert judged("softmax", dtype=torch.float16).verdict is not Verdict.FAIL
    assert judged("softmax", NAN, torch.float32).verdict is Verdict.FAIL


@pytest.mark.parametrize("wrong", [NAN, INF, 1.0])
@pytest.mark.parametrize("name", ["softmax", "sigmoid at +inf", "clamp"])
def test_another_number_fails(name, wrong):
    report = judged(name, wrong)
    assert report.verdict is Verdict.FAIL, str(report)


def test_a_small_number_fails():
    assert judged("exp", 1e-3).verdict is Verdict.FAIL


def test_beside_an_output_without_a_value_nobody_is_accused():
    x = scores(2, 4)
    x[1] = -INF  # softmax of a row that is masked whole is NaN, and so is its gradient
    forward, backward, _ = CASES["softmax"]
    report = gradproof.check(
        forward, x.clone().requires_grad_(), vjp=lambda g, x: backward(g, x), ways=False
    )
    assert report.verdict is not Verdict.FAIL, str(report)


def test_what_does_not_settle_is_undecided_where_the_rule_gives_a_number():
    one = np.ones((1, 1))
    code = np.full((1, 1), Code.DOMAIN, np.int8)
    block = Block(
        np.arange(1), np.arange(1), 2 * one, NAN * one, one, one, code,
        0 * one, NAN * one, NAN * one,
    )  # fmt: skip
    x = np.array([INF])
    (told,) = untested(Compared(x, block), x, np.zeros(1))
    assert (told.reason, told.where, told.decide) == ("domain", WHERE, DECIDE)
    assert told.detail == DETAIL.format(number="2")
    assert not untested(Compared(x, block), x, np.array([NAN]))
