"""orders=2: the derivative of a backward, which is a rule of its own."""

from __future__ import annotations

import numpy as np
import torch
from row_kit import randn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

import gradproof
from gradproof import Verdict


class CosTimes(Function):
    """g·cos(x), whose own backward is written by hand."""

    sign = -1.0

    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(g, x)
        return g * x.cos()

    @classmethod
    def backward(cls, ctx, h):
        g, x = ctx.saved_tensors
        return h * x.cos(), cls.sign * h * g * x.sin()


class CosTimesWrong(CosTimes):
    sign = 1.0


class Sine(Function):
    inner = CosTimes

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @classmethod
    def backward(cls, ctx, g):
        return cls.inner.apply(g, *ctx.saved_tensors)


class SineWrong(Sine):
    inner = CosTimesWrong


class SineOnce(Sine):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


class SineDetached(Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.detach().cos()


class Triple(Function):
    """Linear: there is no second derivative to lose."""

    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, g):
        return 3 * g


def asked(fn, *inputs):
    return gradproof.check(fn, inputs or (randn(3, 4),), orders=2)


def slugs(report):
    return [f.slug for f in report.findings if f.severity == "error"]


def test_a_backward_made_of_a_rule_that_is_right():
    report = asked(Sine)
    assert report.verdict is Verdict.PASS, str(report)
    assert "second order" not in report.record.not_asked


def test_its_own_backward_wrong():
    report = asked(SineWrong)
    assert report.verdict is Verdict.FAIL
    assert slugs(report) == ["wrong-second-derivative"], str(report)
    assert gradproof.check(SineWrong, (randn(3, 4),)).verdict is Verdict.PASS


def test_detached():
    report = asked(SineDetached)
    assert report.verdict is Verdict.FAIL
    assert slugs(report) == ["detached-second-derivative"], str(report)


def test_once_differentiable_says_so_itself():
    report = asked(SineOnce)
    assert report.verdict is Verdict.PASS, str(report)
    assert (
        "no second order: the backward is marked once_differentiable"
        in report.record.not_asked
    )


def test_a_pair_of_numpy_functions_has_none():
    report = gradproof.check(
        np.sin, (np.array([0.5, 1.25]),), vjp=lambda g, x: g * np.cos(x), orders=2
    )
    assert report.verdict is Verdict.PASS
    assert "second order: there is none" in report.record.not_asked


def test_a_linear_one():
    report = asked(Triple)
    assert report.verdict is Verdict.PASS, str(report)


def test_two_rules_in_one_callable():
    report = asked(lambda x, w: Sine.apply(x) * Triple.apply(w), randn(3), randn(3))
    assert report.verdict is Verdict.PASS, str(report)
    wrong = asked(lambda x: Triple.apply(SineWrong.apply(x)).square(), randn(3))
    assert slugs(wrong) == ["wrong-second-derivative"], str(wrong)
    assert "`SineWrong.backward`" in wrong.findings[0].headline


def test_in_float32():
    x = randn(3, 4, dtype=torch.float32)
    assert asked(Sine, x).verdict is Verdict.PASS
    assert slugs(asked(SineWrong, x)) == ["wrong-second-derivative"]
