"""Ways asked in one go, as on large problems: what is wrong only there is left unsettled."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.autograd import Function
from ways_planted import FORMS, Right, function_of, inputs

from gradproof.adapters.torch_adapt import adapt
from gradproof.adapters.torch_ways import ways_for
from gradproof.checks import ways as check

# Asked by themselves at every size.
ALONE = {
    "under vmap",
    "under vmap, batched along the last axis",
    "under vmap over x alone",
    "under vmap over w alone",
}


def views(space, v):
    return [space.view(v, leaf) for leaf in space]


def together(rule):
    primal = rule.primal
    ybar = primal.codomain.draw(np.random.default_rng(5))
    plain = rule.vjp(primal.point, ybar).value
    return check.together(
        rule,
        views(primal.domain, primal.point),
        views(primal.codomain, ybar),
        views(primal.domain, plain),
    )


def unsettled(rule):
    return {way.name for way in ways_for(rule)} - together(rule).agreed


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_right_rule_is_settled_in_every_way(dtype):
    rule = adapt(function_of(Right()), inputs(dtype))
    assert unsettled(rule) == ALONE


@pytest.mark.parametrize("name", [name for name in FORMS if name not in ALONE])
def test_what_is_wrong_in_one_way_only_is_not_settled(name):
    assert name in unsettled(adapt(function_of(FORMS[name]()), inputs()))


# --- rules as people write them, large enough to be asked so


class Sine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


class WritesOnInput(Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = g * x.cos()
        x.data.mul_(1.0 + 1e-3)
        return out


class WritesOnCotangent(Sine):
    @staticmethod
    def backward(ctx, g):
        out = g * ctx.saved_tensors[0].cos()
        g.data[-1] = 0.0
        return out


class WritesBeyond(Sine):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if x.untyped_storage().nbytes() > x.numel() * x.element_size():
            end = x.storage_offset() + x.numel()
            torch.as_strided(x.data, (1,), (1,), end).fill_(0.0)
        return g * x.cos()


def large(dtype=torch.float32, n=70_001):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_old_style_rules_say_that_torch_func_refuses_them(dtype):
    rule = adapt(Sine, (large(dtype),))
    settled = together(rule)
    assert unsettled(rule) == {"under torch.func.vjp"} == set(settled.replies)
    assert "setup_context" in settled.replies["under torch.func.vjp"].failure.message


@pytest.mark.parametrize("wrong", [WritesOnInput, WritesOnCotangent, WritesBeyond])
def test_where_something_is_disturbed_nothing_is_settled(wrong):
    settled = together(adapt(wrong, (large(),)))
    assert not settled.agreed
    assert not settled.replies


def test_a_gradient_that_is_not_finite_is_asked_the_long_way():
    x = large()
    x[5] = torch.inf
    assert not together(adapt(Sine, (x,))).agreed


def test_what_is_settled_is_not_asked_again_and_is_told_the_same():
    rule = adapt(Sine, (large(),))
    primal = rule.primal
    ybar = primal.codomain.draw(np.random.default_rng(5))
    own = np.zeros(primal.domain.size)
    settled = together(rule)
    short = check.asked(rule, primal.point, ybar, own, settled=settled)
    assert len(short) == len(ways_for(rule))
    told = [
        {
            (
                a.way,
                a.factor,
                a.slug,
                a.agreed,
                a.severity,
                a.failure and a.failure.message,
            )
            for a in asked
        }
        for asked in (short, check.asked(rule, primal.point, ybar, own))
    ]
    assert told[0] == told[1]


class Counting(Function):
    calls: ClassVar = {"forward": 0, "backward": 0}

    @staticmethod
    def forward(ctx, x):
        Counting.calls["forward"] += 1
        return Sine.forward(ctx, x)

    @staticmethod
    def backward(ctx, g):
        Counting.calls["backward"] += 1
        return Sine.backward(ctx, g)


def test_all_of_them_cost_a_dozen_calls():
    rule = adapt(Counting, (large(),))
    Counting.calls.update(forward=0, backward=0)
    together(rule)
    # One of each is the plain question of ``together`` here.
    assert Counting.calls["forward"] <= 12
    assert Counting.calls["backward"] <= 14
