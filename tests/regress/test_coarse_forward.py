"""A forward in bfloat16 behind a wider interface is a staircase, and no proof."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradproof
from gradproof import Verdict
from gradproof.checks.coarse import coarse
from gradproof.space import Leaf, Space


class Product(torch.autograd.Function):
    low = torch.bfloat16

    @classmethod
    def times(cls, a, b):
        return (a.to(cls.low) @ b.to(cls.low)).to(a.dtype)

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return Product.times(x, w)

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        return Product.times(grad_output, w.t()), Product.times(x.t(), grad_output)


class OnlyBackward(Product):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w


def inputs(dtype):
    g = torch.Generator().manual_seed(3)
    return (
        torch.randn(4, 6, generator=g, dtype=torch.float64).to(dtype),
        torch.randn(6, 3, generator=g, dtype=torch.float64).to(dtype),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_low_precision_throughout_is_not_accused(dtype):
    report = gradproof.check(Product, inputs(dtype))
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_low_precision_in_the_backward_alone_is(dtype):
    report = gradproof.check(OnlyBackward, inputs(dtype))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "hidden-low-precision"


def test_which_outputs_are_coarse():
    space = Space.of([Leaf("out", (6,), "float32")])
    plain = np.array([0.1, 0.23, -1.7, 3.3, 0.9, 12.4])
    low = torch.tensor(plain).bfloat16().double().numpy()
    assert coarse(low, space).all()
    assert not coarse(space.snap(plain), space).any()
    # A grid of quarters is the user's own: a quantiser, not a precision.
    assert not coarse(np.array([0.25, 1.0, -0.75, 2.5, 0.5, 1.25]), space).any()
    assert not coarse(low, Space.of([Leaf("out", (6,), "bfloat16")])).any()
    assert not coarse(low[:3], Space.of([Leaf("out", (3,), "float32")])).any()


class Largest(torch.autograd.Function):
    """Its values are short numbers because its inputs are."""

    @staticmethod
    def forward(ctx, x):
        value, index = x.max(-1)
        ctx.save_for_backward(index)
        ctx.shape = x.shape
        return value

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.unsqueeze(-1).expand(ctx.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_hands_short_numbers_on_is_no_staircase(dtype):
    x = torch.randn(6, 9, generator=torch.Generator().manual_seed(3)).bfloat16()
    report = gradproof.check(Largest, (x.to(dtype),), ways=False)
    assert report.verdict is Verdict.FAIL, str(report)
