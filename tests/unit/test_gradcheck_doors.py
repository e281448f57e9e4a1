"""gradproof.gradcheck and gradgradcheck: the drop-ins with the judge behind them."""

import inspect
import sys

import pytest
import torch

import gradproof

TORCHS_ERROR = sys.modules["torch.autograd.gradcheck"].GradcheckError


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.cos(x)


class Tiny(Sine):
    """Off by less than torch's tolerance: only ours sees it."""

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.cos(x) * (1 + 2e-4)


class Jittery(Sine):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.cos(x) * (1 + 1e-7 * torch.rand_like(x))


class Overwrites(Sine):
    """The numbers are right; what it does to its cotangent is for check() to accuse."""

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        out = grad_output * torch.cos(x)
        if grad_output.abs().max() > 1:
            grad_output.zero_()
        return out


def x64():
    return torch.linspace(-1.1, 1.3, 5, dtype=torch.float64, requires_grad=True)


def test_signatures_are_torchs():
    for name in ("gradcheck", "gradgradcheck"):
        ours = inspect.signature(getattr(gradproof, name)).parameters
        theirs = inspect.signature(getattr(torch.autograd, name)).parameters
        assert list(ours) == list(theirs)
        assert [p.default for p in ours.values()] == [
            p.default for p in theirs.values()
        ]


def test_right_is_a_real_true():
    assert gradproof.gradcheck(Sine.apply, (x64(),)) is True
    assert gradproof.gradgradcheck(Sine.apply, (x64(),)) is True


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient")
def test_float32_is_judged_by_us():
    x = x64().detach().float().requires_grad_()
    assert gradproof.gradcheck(Sine.apply, (x,)) is True
    with pytest.raises(gradproof.GradcheckError, match="Jacobian mismatch"):
        gradproof.gradcheck(Tiny.apply, (x,))


def test_an_error_below_torchs_tolerance_is_found_and_explained():
    assert torch.autograd.gradcheck(Tiny.apply, (x64(),)) is True
    with pytest.raises(TORCHS_ERROR) as caught:
        gradproof.gradcheck(Tiny.apply, (x64(),))
    text = str(caught.value)
    assert text.startswith("Jacobian mismatch for output 0 with respect to input 0,")
    assert "error[wrong-factor]" in text
    assert gradproof.gradcheck(Tiny.apply, (x64(),), raise_exception=False) is False


def test_the_callers_criterion_decides_where_it_is_given():
    assert gradproof.gradcheck(Tiny.apply, (x64(),), rtol=1e-2) is True
    assert gradproof.gradcheck(Jittery.apply, (x64(),), nondet_tol=1e-3) is True
    with pytest.raises(gradproof.GradcheckError, match="not reentrant"):
        gradproof.gradcheck(Jittery.apply, (x64(),))


def test_side_effects_are_not_a_wrong_jacobian():
    assert gradproof.gradcheck(Overwrites.apply, (x64(),)) is True
    assert not gradproof.check(Overwrites, x64()).ok


def test_an_unknown_keyword_is_pythons_own_error():
    with pytest.raises(TypeError, match="unexpected keyword"):
        gradproof.gradcheck(Sine.apply, (x64(),), epsilon=1e-3)


def test_nothing_else_is_loaded_lazily():
    with pytest.raises(AttributeError, match="no attribute 'gradchek'"):
        gradproof.gradchek  # noqa: B018
