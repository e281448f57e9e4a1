"""A forward that raises now and then is nobody's mistake in the backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import Function

import gradproof
from gradproof import Verdict
from gradproof.proof.raising import DECIDE, DETAIL

X = torch.linspace(0.3, 2, 4, dtype=torch.float64)
LUCK = "the solver did not converge"


def rule(when, factor=1.0):
    calls = []

    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(1)
            if when(len(calls)):
                raise RuntimeError(LUCK)
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            return factor * g * torch.cos(ctx.saved_tensors[0])

    return Rule


WHEN = {
    "every third": lambda n: n % 3 == 0,
    "every seventh": lambda n: n % 7 == 0,
    "every thirteenth": lambda n: n % 13 == 0,
    "from the fortieth on": lambda n: n > 40,
}


@pytest.mark.parametrize("when", WHEN)
def test_it_is_undecided_and_quoted(when):
    report = gradproof.check(rule(WHEN[when]), X)
    assert report.verdict is Verdict.UNDECIDED, str(report)
    assert not report.findings
    (told,) = report.record.undecided
    failure = f"RuntimeError: {LUCK}"
    assert told.detail in {
        DETAIL.format(calls=k, failure=failure) for k in range(1, 51)
    }
    assert (told.reason, told.decide) == ("stateful-forward", DECIDE)


@pytest.mark.parametrize("every", [29, 50])
def test_where_it_goes_unnoticed_nobody_is_blamed(every):
    report = gradproof.check(rule(lambda n: n % every == 0), X)
    assert report.verdict is not Verdict.FAIL
    assert all(f.severity == "note" for f in report.findings)


def test_a_wrong_gradient_beside_it_does_not_pass():
    report = gradproof.check(rule(WHEN["every thirteenth"], 1.1), X, ways=False)
    assert report.verdict is not Verdict.PASS


def test_the_forward_of_a_pair_too():
    calls = []

    def forward(x):
        calls.append(1)
        if len(calls) % 9 == 0:
            raise FloatingPointError(LUCK)
        return np.sin(x)

    report = gradproof.check(forward, X.numpy(), vjp=lambda g, x: g * np.cos(x))
    assert report.verdict is Verdict.UNDECIDED
    assert not report.findings


def test_a_backward_that_raises_is_still_the_mistake():
    calls = []

    def backward(g, x):
        calls.append(1)
        if len(calls) > 3:
            raise RuntimeError("the buffers are gone")
        return g * np.cos(x)

    report = gradproof.check(np.sin, X.numpy(), vjp=backward)
    assert report.verdict is Verdict.FAIL
