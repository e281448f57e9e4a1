"""At an infinite slope nothing is decided, and nobody accused."""

from __future__ import annotations

import pytest
import torch

import gradproof
from gradproof import Verdict


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sqrt()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 0.5 / x.sqrt()


class DoubledRoot(Root):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output / x.sqrt()


class Length(torch.autograd.Function):
    """Rows' Euclidean norms: a kink at 0, whose slopes are finite."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.norm(dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output[:, None] * x / x.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [3, 600])
def test_a_root_at_zero_is_not_accused(dtype, size):
    x = torch.linspace(0.0, 2.0, size, dtype=dtype)
    report = gradproof.check(Root, (x,))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert gradproof.check(DoubledRoot, (x,)).verdict is Verdict.FAIL


def test_nan_at_a_kink_is_still_told():
    x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    report = gradproof.check(Length, (x,))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "nan-gradient"
