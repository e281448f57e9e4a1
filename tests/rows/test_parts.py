"""Several custom gradients in one callable: the one that errs is named."""

from __future__ import annotations

import pytest
import torch
from row_kit import packed, randn
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import gradproof
from gradproof import Verdict
from gradproof.verdict import Severity


class Sine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


class Scale(Function):
    factor = 3.0

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return 3 * x * w

    @classmethod
    def backward(cls, ctx, g):
        x, w = ctx.saved_tensors
        return 3.0 * g * w, cls.factor * g * x


class ScaleWrong(Scale):
    factor = 1.5


class SinePacked(Sine):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return packed(g) * x.cos()


class Round(Function):  # gradproof: allow[straight-through]
    @staticmethod
    def forward(ctx, x):
        return (4 * x).round() / 4

    @staticmethod
    def backward(ctx, g):
        return g


class RoundUndeclared(Round):
    pass


def chain(first, second):
    def op(x, w):
        return first.apply(second.apply(x, w)).square()

    return op


class Net(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second
        self.weight = nn.Parameter(randn(3, 4, seed=2).detach())

    def forward(self, x):
        return self.first.apply(self.second.apply(x, self.weight))


def inputs():
    return randn(3, 4), randn(3, 4, seed=2)


def lines(report):
    return report.findings[0].evidence


def test_the_wrong_one_leads_by_name():
    report = gradproof.check(chain(Sine, ScaleWrong), inputs())
    assert report.verdict is Verdict.FAIL
    first = report.findings[0]
    assert first.slug == "wrong-factor"
    assert "`ScaleWrong.backward`" in first.headline
    assert "applied inside `op`" in lines(report)
    assert "`ScaleWrong` alone is wrong: wrong-factor" in lines(report)
    assert "`Sine` alone is right" in lines(report)


def test_when_all_are_right_the_callable_passes():
    report = gradproof.check(chain(Sine, Scale), inputs())
    assert report.verdict is Verdict.PASS, str(report)


def test_in_a_module():
    report = gradproof.check(Net(Sine, ScaleWrong), (randn(3, 4),))
    assert "`ScaleWrong.backward`" in report.findings[0].headline
    assert gradproof.check(Net(Sine, Scale), (randn(3, 4),)).ok


def test_two_wrong_ones_are_both_told():
    class Other(Sine):
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return -g * x.cos()

    report = gradproof.check(chain(Other, ScaleWrong), inputs())
    slugs = {f.slug for f in report.findings if f.severity is Severity.ERROR}
    assert slugs == {"wrong-sign", "wrong-factor"}


def test_one_that_errs_only_in_one_way_of_asking():
    def op(x, w):
        return Scale.apply(SinePacked.apply(x), w).t()

    report = gradproof.check(op, inputs())
    first = report.findings[0]
    assert (report.verdict, first.slug) == (Verdict.FAIL, "layout-assumed")
    assert "`SinePacked.backward`" in first.headline
    assert "`Scale` alone is right" in first.evidence


def test_an_error_that_comes_of_a_declared_one_is_declared():
    report = gradproof.check(chain(Round, Scale), inputs())
    assert report.verdict is Verdict.PASS, str(report)
    assert [f.slug for f in report.findings if f.allowed] == ["straight-through"]


def test_beside_a_declared_one_a_wrong_one_is_not_excused():
    report = gradproof.check(chain(Round, ScaleWrong), inputs())
    assert report.verdict is Verdict.FAIL
    assert [f.slug for f in report.findings if f.severity is Severity.ERROR] == [
        "wrong-factor"
    ]


def test_without_a_declaration_it_is_named():
    report = gradproof.check(chain(RoundUndeclared, Scale), inputs())
    assert report.findings[0].slug == "straight-through"
    assert "`RoundUndeclared.backward`" in report.findings[0].headline
    again = gradproof.check(
        chain(RoundUndeclared, Scale), inputs(), allow="straight-through"
    )
    assert again.verdict is Verdict.PASS


def test_where_each_is_right_alone_the_whole_is_accused():
    def op(x, w):
        return Sine.apply(x).detach() * Scale.apply(x, w)

    report = gradproof.check(op, inputs())
    assert report.verdict is Verdict.FAIL
    assert {"`Sine` alone is right", "`Scale` alone is right"} <= set(lines(report))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_other_dtypes(dtype):
    args = randn(3, 4, dtype=dtype), randn(3, 4, seed=2, dtype=dtype)
    report = gradproof.check(chain(Sine, ScaleWrong), args)
    assert "`ScaleWrong.backward`" in report.findings[0].headline
    assert gradproof.check(chain(Sine, Scale), args).ok
