"""Gradients of which rounding leaves more, or less, than the function shows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import special
from torch.autograd import Function

import gradproof
from gradproof import Verdict


def normal(x):
    """The normal distribution function, its tail lost in the rounding of 1 + erf."""
    return 0.5 * (1 + special.erf(x / np.sqrt(2)))


def density(factor=1.0):
    return lambda g, x: factor * g * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize("x", [-8.4784, -9.0, -12.0])
def test_a_tail_that_is_0_by_rounding_accuses_nobody(x):
    report = gradproof.check(normal, np.array([x]), vjp=density())
    assert report.verdict is not Verdict.FAIL, str(report)


def test_a_dead_branch_still_has_the_slope_0():
    x = np.array([-0.5, -2.0, -0.01])
    leaky = gradproof.check(
        lambda x: np.maximum(x, 0), x, vjp=lambda g, x: g * np.where(x > 0, 1, 1e-6)
    )
    assert leaky.verdict is Verdict.FAIL


class Norm(Function):
    """Layer norm of single numbers: the output is the bias, and no gradient else."""

    factor = 1.0

    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w, b)
        return F.layer_norm(x, (x.shape[-1],), w, b)

    @classmethod
    def backward(cls, ctx, g):
        x, w, b = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            y = F.layer_norm(x, (x.shape[-1],), w, b)
        gx, gw, gb = torch.autograd.grad(y, (x, w, b), g)
        return gx, gw, cls.factor * gb


class Doubled(Norm):
    factor = 1.01


@pytest.mark.parametrize("values", [(-4.3228, -8.4784, -1.7658), (7.1, 3.3, 0.4)])
def test_what_cancels_to_0_leaves_its_rounding(values):
    inputs = tuple(torch.tensor([v]) for v in values)
    report = gradproof.check(Norm, inputs, ways=False)
    assert report.verdict is Verdict.PASS, str(report)
    assert gradproof.check(Doubled, inputs, ways=False).verdict is Verdict.FAIL
