"""`arg.fixed` asks no gradient, whatever the other inputs are."""

import numpy as np
import pytest
import torch

import gradproof
from gradproof import arg
from gradproof.adapters.describe import drawn_of, is_fixed


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        return grad_output * mask, None


class Undone(Masked):
    @staticmethod
    def backward(ctx, grad_output):
        return None, None


def test_a_tensor_of_the_callers_that_is_fixed_beside_one_that_is_not_marked():
    x, mask = torch.linspace(-1, 2, 6), torch.tensor([1.0, 2.0, 3.0, 0.0, 1.0, 2.0])
    accused = gradproof.check(Masked, (x, mask))
    assert accused.findings[0].slug == "missing-gradient"
    assert accused.findings[0].help.text.endswith(
        "; where it is data that needs none, pass it as arg.fixed"
    )
    assert gradproof.check(Masked, (x, arg.fixed(mask))).ok
    assert gradproof.check(Undone, (x, arg.fixed(mask))).verdict.name == "FAIL"
    assert not x.requires_grad
    assert not mask.requires_grad


def test_a_drawn_input_does_not_hide_an_unmarked_one():
    x = torch.linspace(-1, 2, 6)
    assert gradproof.check(Undone, (x, arg.fixed(arg.randn(6)))).verdict.name == "FAIL"
    assert gradproof.check(Undone, (x, arg.randn(6))).verdict.name == "FAIL"


@pytest.mark.parametrize("fixed", [arg.fixed(arg.randn(3)), arg.fixed(np.ones(3) * 2)])
@pytest.mark.parametrize("short", [False, True])
def test_an_array_that_is_fixed(fixed, short):
    def vjp(grad_output, x, mask):
        return grad_output * mask if short else (grad_output * mask, None)

    x = np.array([1.0, 2.0, 3.0])
    assert gradproof.check(lambda x, mask: x * mask, (x, fixed), vjp=vjp).ok
    wrong = gradproof.check(
        lambda x, mask: x * mask * mask, (x, fixed), vjp=lambda g, x, mask: g * mask
    )
    assert wrong.verdict.name == "FAIL"
    assert not is_fixed(x)


def test_a_fixed_array_is_saved_as_one():
    made = gradproof.given.realise(
        gradproof.given.draw((arg.fixed(arg.randn(3)),), {}, 0), arrays=True
    )[0]
    assert drawn_of(made)[0].fixed
