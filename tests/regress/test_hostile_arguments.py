"""Arguments that nobody should pass get a sentence, or are left in peace."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import gradproof
from gradproof import Verdict


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, anything):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.cos(), None


class Unfriendly:
    def __repr__(self):
        raise RuntimeError("no repr")

    def __eq__(self, other):
        raise RuntimeError("no eq")

    def __bool__(self):
        raise RuntimeError("no bool")


X = torch.linspace(0.1, 1.0, 5, dtype=torch.float64)


def endless():
    thing: list[object] = []
    thing.append(thing)
    return thing


@pytest.mark.parametrize(
    "anything",
    [
        10**400,
        -(10**400),
        float("nan"),
        3 + 4j,
        "\x00é",
        Unfriendly(),
        ...,
        (i for i in [1]),
    ],
    ids=["huge", "minus-huge", "nan", "complex", "text", "object", "dots", "generator"],
)
def test_odd_arguments_are_left_in_peace(anything):
    assert gradproof.check(Sine, (X, anything)).verdict is Verdict.PASS


def test_a_list_that_contains_itself_is_a_sentence():
    with pytest.raises(gradproof.UsageError, match="nested more than 100 deep"):
        gradproof.check(Sine, (X, endless()))


def test_tensors_without_numbers_are_a_sentence():
    with FakeTensorMode():
        fake = torch.ones(3)
    nested = torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(3)], layout=torch.jagged
    )
    for t, what in (
        (torch.ones(3, device="meta"), "on the meta device"),
        (fake, "a fake tensor"),
        (nested, "a nested tensor"),
    ):
        with pytest.raises(gradproof.UsageError, match=f"x is {what}, and a tensor"):
            gradproof.check(Sine, (t, None))
