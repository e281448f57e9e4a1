"""``tolerate=`` accepts a relative error, and no larger one."""

from __future__ import annotations

import pytest
import torch

import gradproof
from gradproof import Verdict


def scaled(factor: float):
    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return factor * 3 * grad_output * x**2

    return Cubed


@pytest.mark.parametrize("size", [4, 2000])
@pytest.mark.parametrize(
    ("factor", "tolerate", "verdict"),
    [
        (1.02, 0.05, Verdict.PASS),
        (1.02, 0.01, Verdict.FAIL),
        (1.02, 0.0, Verdict.FAIL),
        (1.0, 0.05, Verdict.PASS),
        (0.0, 0.5, Verdict.FAIL),
    ],
)
def test_a_relative_error_is_accepted(size, factor, tolerate, verdict):
    x = torch.linspace(0.5, 2.0, size, dtype=torch.float64)
    report = gradproof.check(scaled(factor), (x,), tolerate=tolerate, resolve=0.9)
    assert report.verdict is verdict, str(report)
