"""The reason that is given is the one that there is."""

from __future__ import annotations

import numpy as np
import torch
from torch.autograd import Function

import gradproof
from gradproof import Verdict
from gradproof.checks.gradient import Compared
from gradproof.checks.worth import SEE, UNSEEN, blind, limits
from gradproof.proof.concluding import BENT, COARSE, OFF_KINKS
from gradproof.space import Leaf, Space
from gradproof.verdict import Block


def test_ties_are_kinks_and_no_noise():
    torch.manual_seed(0)
    x = (torch.randn(600, 20, dtype=torch.float64) * 4).round() / 4
    report = gradproof.check(lambda x: x.max(-1).values, x, ways=False, budget=1e-3)
    (told,) = report.record.undecided
    assert (told.reason, told.decide) == ("kink", OFF_KINKS)
    limit = report.detection_limit["uniform"]
    assert told.detail == COARSE.format(limit=limit, wanted=1e-2) + BENT
    assert all(type(value) is float for value in report.detection_limit.values())


def test_a_rule_given_in_float32_is_right_in_float64():
    class Rule(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * torch.cos(x) * (1.0 if x.dtype == torch.float64 else 1.1)

    report = gradproof.check(Rule, torch.linspace(0.2, 1, 5), ways=False)
    (found,) = (f for f in report.findings if f.severity == "error")
    assert found.slug == "dtype-dependent"
    assert "is right in float64 and wrong in float32" in found.headline


def measured(value, bound, precision="float64"):
    value, bound = np.atleast_2d(value), np.atleast_2d(bound)
    n = value.shape[1]
    block = Block(
        np.arange(1), np.arange(n), value, value, bound, bound,
        np.zeros((1, n), np.int8), 0 * value, 0 * value, 0 * value,
    )  # fmt: skip
    space = Space.of([Leaf("x", (n,), precision)])
    return Compared(np.zeros(n), block), space, Space.of([Leaf("out", (1,), precision)])


def test_an_entry_whose_sign_was_not_seen_leaves_it_undecided():
    found, domain, codomain = measured([1.0, 2.0, 0.5], [1e-9, 1e-9, 4.0])
    (told,) = blind(found, domain, codomain)
    assert (told.reason, told.count, told.decide) == ("noise", 1, SEE)
    assert told.where == "out[0] by x[2]"
    assert told.detail == UNSEEN.format(count=1, total=3, value=0.5, bound=4.0)
    assert limits(found)[1].value == 8.0


def test_an_entry_far_below_the_others_is_held_against_them():
    found, domain, codomain = measured([1.0, 2.0, 0.01], [1e-9, 1e-9, 0.02])
    assert not blind(found, domain, codomain)
    assert limits(found)[1].value == 0.02  # of the typical entry, which is 1
    assert limits(found)[0].value == 5e-10


def test_in_half_precision_the_limits_say_so_alone():
    found, *spaces = measured([1.0, 2.0, 0.5], [1e-3, 1e-3, 4.0], "float16")
    assert not blind(found, *spaces)


def test_what_is_seen_passes():
    x = torch.linspace(0.2, 1, 5)
    assert gradproof.check(torch.sin, x, ways=False).verdict is Verdict.PASS
