"""Right rules of many entries that looked wrong, and wrong ones that looked right."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import gradproof
from gradproof import Verdict


class FakeQuantised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x * 64).round() / 64

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class FromOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.sigmoid()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y * (1 - y)


class FromOutputOff(FromOutput):
    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return 1.01 * grad_output * y * (1 - y)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_slope_across_the_steps_of_a_stair_is_none(dtype):
    report = gradproof.check(FakeQuantised, normal(20000, dtype=dtype), ways=False)
    assert report.verdict is Verdict.UNDECIDED
    assert report.record.undecided[0].reason == "noise"
    assert "an error as large as the entry itself would not have been seen in" in str(
        report
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [1e-6, 1e-12])
def test_a_row_of_zeros_is_resolved_by_no_coarse_step(eps, dtype):
    x = normal(50, 16, dtype=dtype)
    x[25] = 0
    report = gradproof.check(
        lambda t: F.normalize(t, dim=-1, eps=eps), x, ways=False, name="normalise"
    )
    assert report.verdict is not Verdict.FAIL


def test_so_is_one_zero_among_many_numbers():
    x = normal(9000)
    x[25] = 0
    report = gradproof.check(
        lambda t: t / t.abs().clamp(min=1e-3) * (1 + t), x, ways=False
    )
    assert report.verdict is not Verdict.FAIL


def test_rounding_of_the_rule_itself_is_held_against_the_same_rule_in_float64():
    x = normal(10000) * 100
    assert gradproof.check(FromOutput, x, ways=False).verdict is Verdict.PASS
    assert gradproof.check(FromOutputOff, x / 50, ways=False).verdict is Verdict.FAIL
