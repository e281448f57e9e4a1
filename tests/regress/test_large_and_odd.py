"""What is large, with numbers that are none, gradients unseen in a dtype, bad conditioning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import gradproof
from gradproof import Verdict


def operation(forward: Callable, backward: Callable) -> type:
    class Op(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.save_for_backward(*xs)
            return forward(*xs)

        @staticmethod
        def backward(ctx, grad_output):
            return backward(grad_output, *ctx.saved_tensors)

    return Op


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_an_input_that_is_no_number_accuses_nobody(odd):
    x = torch.randn(600, generator=torch.Generator().manual_seed(1)).double()
    x[4] = odd
    right = operation(torch.sin, lambda g, x: g * x.cos())
    report = gradproof.check(right, (x,), ways=False)
    assert report.verdict is not Verdict.FAIL, str(report)
    assert report.record.left_out
    wrong = operation(torch.sin, lambda g, x: 1.01 * g * x.cos())
    assert gradproof.check(wrong, (x,), ways=False).verdict is Verdict.FAIL


def test_a_dtype_in_which_nothing_could_be_seen_is_undecided():
    x = torch.rand(600, generator=torch.Generator().manual_seed(1)) + 0.1
    x[4] = 0.0
    # Wrong in float32 alone, where an infinite entry hides it.
    factor = {torch.float32: 2.0, torch.float64: 1.0}
    log = operation(torch.log, lambda g, x: factor[x.dtype] * g / x)
    report = gradproof.check(log, (x,), ways=False)
    assert report.verdict is Verdict.UNDECIDED
    (left,) = [
        u for u in report.record.undecided if u.where == "the gradient in float32"
    ]
    assert "would not have been seen" in left.detail


def test_equal_rows_that_leave_nothing_to_divide_by_accuse_nobody():
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm1d(16).train()
    report = gradproof.check(norm, (x,))
    assert report.verdict is not Verdict.FAIL, str(report)


@pytest.mark.parametrize("seed", range(3))
def test_the_uniform_limit_is_that_of_the_worst_input(seed):
    generator = torch.Generator().manual_seed(1)
    xs = torch.randn(50, 30, generator=generator), torch.randn(30, generator=generator)

    def scaled(by):
        return operation(torch.mul, lambda g, x, w: (g * w, (1 + by) * (g * x).sum(0)))

    limit = gradproof.check(scaled(0.0), xs, ways=False, seed=seed)
    limit = limit.detection_limit["uniform"]
    report = gradproof.check(scaled(1.5 * limit), xs, ways=False, seed=seed)
    assert report.verdict is Verdict.FAIL, str(report)
