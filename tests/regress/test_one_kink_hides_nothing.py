"""A branch next to one entry is no rounding of the others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradproof
from gradproof import Verdict
from gradproof.checks.rounding import typical


class Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.relu(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x > 0)


class Tripled(Rectified):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 1.5 * grad_output * (x > 0)


X = torch.tensor([0.0, -1.0, 0.5, 3.0, 2.0], dtype=torch.float64)


def test_right_beside_a_kink_passes():
    report = gradproof.check(Rectified, (X,))
    assert report.verdict is Verdict.PASS, str(report)
    assert report.detection_limit["one entry"] < 1e-3


def test_wrong_beside_a_kink_fails():
    report = gradproof.check(Tripled, (X,))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "wrong-factor"


def test_what_is_typical():
    got = np.array([1.0, 1.0, 0.0, 2.0])
    rounding = np.array([1e-16, 2e-16, 0.0, 2e-16])
    plain = typical(rounding, got, 2.0**-53)
    assert plain == pytest.approx(1.5e-16)
    one = rounding.copy()
    one[2] = 1.0
    assert typical(one, got, 2.0**-53) < 1e-15
    # Where most entries move that far it is conditioning, and counts.
    assert typical(np.array([0.1, 0.2, 0.1, 0.0]), got, 2.0**-53) > 0.1
    assert typical(np.zeros(3), np.ones(3), 2.0**-53) == 0.0
    with np.errstate(all="raise"):
        assert typical(np.array([1e300, 1e300]), got[:2], 2.0**-53) == pytest.approx(
            1e300
        )
