"""Other settings of what is large: asked on arrays, and told as on vectors."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

import gradproof
from gradproof.adapters.torch_adapt import adapt
from gradproof.checks import narrower, overflow

N = 1_001  # whose Jacobian is not formed


def numbers(dtype=torch.float64, n=N):
    generator = torch.Generator().manual_seed(4)
    return torch.randn(n, generator=generator, dtype=torch.float64).to(dtype)


class Sine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


class WrongInFloat32(Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * (1.02 if x.dtype is torch.float32 else 1.0)


class OneEntryInFloat32(Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = g * x.cos()
        if x.dtype is torch.float32:
            out[-1] += 0.25
        return out


class AnotherFunctionInFloat32(WrongInFloat32):
    """Whose forward differs too, so that nothing is wrong with the backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin() * (1.02 if x.dtype is torch.float32 else 1.0)


class RaisesInFloat32(Sine):
    @staticmethod
    def backward(ctx, g):
        if g.dtype is torch.float32:
            raise TypeError("float64 only")
        return Sine.backward(ctx, g)


class Overflows(Function):
    """The logarithm of cosh as it is written in books."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log(torch.exp(x) + torch.exp(-x))

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].tanh()


def narrow(function):
    rule = adapt(function, (numbers(),))
    arrays = rule.bulk()
    ybar = [0.5 + torch.arange(N, dtype=torch.float64) % 3]
    outs = arrays.value([1.0 * x for x in arrays.point])
    return narrower.agrees(rule, arrays, outs, ybar, "float32")


def test_what_is_right_in_float32_agrees():
    assert narrow(Sine)


@pytest.mark.parametrize(
    "function",
    [WrongInFloat32, OneEntryInFloat32, AnotherFunctionInFloat32, RaisesInFloat32],
)
def test_what_is_odd_in_float32_is_left_to_the_long_way(function):
    assert not narrow(function)


def test_the_verdict_and_what_it_is_worth():
    report = gradproof.check(Sine, (numbers(),))
    assert report.verdict is gradproof.Verdict.PASS
    assert [e.setting for e in report.record.evidence.elsewhere] == ["float32"]
    limits = {a.structure: a.value for a in report.record.limits}
    assert limits["in float32"] == pytest.approx(2e-3, rel=0.01)
    for function in (WrongInFloat32, OneEntryInFloat32):
        assert gradproof.check(function, (numbers(),)).verdict is gradproof.Verdict.FAIL
    for function in (AnotherFunctionInFloat32,):
        assert gradproof.check(function, (numbers(),)).verdict is gradproof.Verdict.PASS


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_forward_that_overflows_is_told_at_any_size(dtype):
    tame, wild = (adapt(f, (numbers(dtype),)).bulk() for f in (Sine, Overflows))
    assert overflow.tame(tame)
    assert not overflow.tame(wild)
    for n in (64, N):
        report = gradproof.check(Overflows, (numbers(dtype, n),))
        assert report.record.evidence.overflow is not None
