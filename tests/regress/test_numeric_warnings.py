"""Neither NumPy's error state nor a warning filter of the user's disturbs a check."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import gradproof
from gradproof import Verdict


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y


@pytest.mark.parametrize(
    "values", [[700.0, 0.0, -700.0], [1e300, 1.0], [float("inf"), 1.0], [5e-324, 1.0]]
)
def test_extreme_values_raise_nothing(values):
    x = torch.tensor(values, dtype=torch.float64)
    with np.errstate(all="raise"):
        before = np.geterr()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            report = gradproof.check(Exponential, (x,))
        assert np.geterr() == before
    assert report.verdict is not Verdict.FAIL, str(report)
    str(report)
