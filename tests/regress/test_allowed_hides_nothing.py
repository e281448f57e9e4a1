"""What is allowed excuses itself, and no second mistake beside it."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

import gradproof
from gradproof import Verdict

X = torch.linspace(-1.1, 2, 6, dtype=torch.float64)


def rule(backward, forward=torch.sin):
    class Op(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Op


def clip(t):
    return t.clamp(-0.2, 0.2)


def of_length_1(t):
    return t / t.norm()


CASES = {
    "ignores ȳ": ("dropped-cotangent", lambda g, d: d),
    "clips its answer": ("nonlinear-cotangent", lambda g, d: clip(g * d)),
    "clips ȳ": ("nonlinear-cotangent", lambda g, d: clip(g) * d),
    "takes the size": ("nonlinear-cotangent", lambda g, d: g.abs() * d),
    "normalises": ("nonlinear-cotangent", lambda g, d: of_length_1(g) * d),
    "adds a term": ("dropped-cotangent", lambda g, d: g * d + 0.1),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", CASES)
def test_a_right_one_is_accepted_and_a_second_mistake_is_not(name, dtype):
    slug, backward = CASES[name]
    right = rule(lambda g, x: backward(g, x.cos()))
    wrong = rule(lambda g, x: backward(g, x.sin()))
    thrice = rule(lambda g, x: backward(g, 3 * x.cos()))
    x = X.to(dtype)
    assert gradproof.check(right, x).verdict is Verdict.FAIL
    assert gradproof.check(right, x, allow=slug).verdict is Verdict.PASS
    for mistaken in (wrong, thrice):
        report = gradproof.check(mistaken, x, allow=slug)
        assert report.verdict is Verdict.FAIL
        (found,) = [f for f in report.findings if f.slug == slug]
        assert not found.allowed
        assert (
            "it is allowed, and does not explain all: x̄ is no derivative"
            in " ".join(found.evidence)
        )


def test_a_clip_of_what_passes_through_hides_no_reversal():
    right = rule(lambda g, x: clip(g), torch.clone)
    wrong = rule(lambda g, x: -clip(g), torch.clone)
    allow = "gradient-clipping"
    assert gradproof.check(right, X, allow=allow).verdict is Verdict.PASS
    assert gradproof.check(wrong, X, allow=allow).verdict is Verdict.FAIL


def test_another_name_that_is_allowed_hides_nothing_either():
    both = rule(lambda g, x: g.mul_(x.sin()))
    report = gradproof.check(both, X, allow="mutated-cotangent")
    assert report.verdict is Verdict.FAIL
