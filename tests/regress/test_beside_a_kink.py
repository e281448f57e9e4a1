"""Rounding inside a rule may put x on the other side of a kink, or on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import Function

import gradproof
from gradproof import Verdict


class Hat(Function):
    """A hat over [-1, 1], as a table is looked up: by 1 + x."""

    factor = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 1 - (x + 1 - 1).abs()

    @classmethod
    def backward(cls, ctx, g):
        (x,) = ctx.saved_tensors
        place = x + 1
        return cls.factor * torch.where(place > 1, -g, g)


class Halved(Hat):
    factor = 0.5


X = [0.5, 3e-4, -0.75, 0.25, -0.5]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_kink_within_rounding_accuses_nobody(dtype):
    report = gradproof.check(Hat, torch.tensor(X, dtype=dtype))
    assert report.verdict is not Verdict.FAIL, str(report)
    wrong = gradproof.check(Halved, torch.tensor(X, dtype=dtype))
    assert wrong.verdict is Verdict.FAIL


def test_a_constant_output_far_from_where_it_moves_is_not_vacuous():
    x = np.array([-40.0, -55.0])
    report = gradproof.check(
        lambda x: np.maximum(x, 1.0), x, vjp=lambda g, x: g * (x > 1)
    )
    assert report.verdict is Verdict.PASS, str(report)
    never = gradproof.check(
        lambda x: np.maximum(x, 1e9), x, vjp=lambda g, x: g * (x > 1e9)
    )
    assert never.verdict is Verdict.UNDECIDED
    assert [u.reason for u in never.record.undecided] == ["vacuous"]


def test_a_result_in_a_narrow_dtype_is_held_to_what_that_can_show():
    def narrowed(x):
        return x.to(torch.bfloat16)

    x = torch.linspace(-2, 2, 9, dtype=torch.float64)
    report = gradproof.check(narrowed, x)
    assert report.verdict is Verdict.PASS, str(report)
    assert report.detection_limit["uniform"] > 1e-2
