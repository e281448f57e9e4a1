"""Why there is no suggestion: one sentence for each reason."""

from __future__ import annotations

import numpy as np
import pytest
import suggest_kit as kit
import torch

import gradproof

ELSEWHERE = {"scale": torch.ones(5, dtype=torch.float64)}


def randn(*shape):
    made = torch.Generator().manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, generator=made)


def leaves(ctx, x):
    return x * x.sum().item()


def decides(ctx, x):
    return x * 2 if (x.sum() > 0) else x


def views(ctx, x):
    y = torch.zeros_like(x)
    y[0].copy_(x[0])
    return y + x


def parts(ctx, x):
    y = x.clone()
    y[0] = 0
    return y


def by_out(ctx, x):
    y = torch.empty_like(x)
    torch.mul(x, x, out=y)
    return y


def draws(ctx, x):
    return x * torch.rand_like(x)


def captures(ctx, x):
    return x * ELSEWHERE["scale"]


def too_long(ctx, x):
    for _ in range(70):
        x = torch.sin(x)
    return x


def changes(ctx, x):
    return x * (0.123 if x.shape[0] == 4 else 0.777)


def does_else(ctx, x):
    return x * 2 if x.shape[0] == 4 else x * 2 * 3


def one_shape(ctx, x):
    return x * x.reshape(4, 5)


def replaces(ctx, x):
    y = x.clone()
    y.data = x
    return y


def by_keyword(ctx, x):
    return torch.nn.functional.elu(x * 1, inplace=True)


def decomposes(ctx, x):
    q, _ = torch.linalg.qr(x)
    return q


def lists(ctx, x):
    return torch.hstack([x, x])


REFUSED = (
    (replaces, "the forward replaces a tensor's memory at line {line}", 2),
    (by_keyword, "the forward writes into a tensor at line {line}", 1),
    (decomposes, "qr gives several tensors, and its gradient is not known here", 0),
    (lists, "the gradient of hstack is not known here", 0),
    (leaves, "the forward leaves PyTorch at line {line}", 1),
    (decides, "the forward decides by values at line {line}", 1),
    (views, "the forward writes into a view at line {line}", 2),
    (parts, "the forward writes into part of a tensor at line {line}", 2),
    (by_out, "the forward writes by out= at line {line}", 2),
    (draws, "the backward needs random numbers of line {line}; save them", 1),
    (captures, "the forward uses a tensor that is no argument at line {line}", 1),
    (
        too_long,
        "the forward runs more than 60 operations; written out, its backward would be "
        "no help",
        0,
    ),
    (
        changes,
        "the forward uses a number that changes with the shapes: 0.123, and 0.777 at "
        "another shape",
        0,
    ),
    (
        does_else,
        "the forward takes other steps at another shape, as by a loop or a branch",
        0,
    ),
    (
        one_shape,
        "the forward ran at no other shape, so it could not be tried there",
        0,
    ),
)


@pytest.mark.parametrize(("forward", "sentence", "below"), REFUSED)
def test_a_forward_that_cannot_be_written_backwards(forward, sentence, below):
    line = forward.__code__.co_firstlineno + below
    from gradproof.adapters import torch_suggest
    from gradproof.adapters.torch_suggest_expr import CannotSay

    with pytest.raises(CannotSay) as caught:
        torch_suggest.suggest(kit.function(forward), (randn(4, 5),))
    assert str(caught.value) == sentence.format(line=line)


def test_a_forward_that_hides_a_part_from_the_trace_is_not_suggested():
    def hidden(ctx, x):
        ctx.save_for_backward(x)
        return x * x.detach()

    assert kit.why_not(kit.function(hidden), randn(4, 5)) == (
        "the backward that was written was not right at these inputs"
    )


def test_one_that_is_right_here_only_is_not_suggested():
    def elsewhere(ctx, x):
        ctx.save_for_backward(x)
        form = "tanh" if x.shape[0] > 4 else "none"
        return torch.nn.functional.gelu(x, approximate=form)

    assert kit.why_not(kit.function(elsewhere), randn(4, 5)) == (
        "the backward that was written was not right at another shape"
    )


def test_one_that_cannot_be_proved_is_not_suggested():
    def square(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    assert kit.why_not(kit.function(square), randn(4, 5), resolve=1e-18) == (
        "the backward that was written could not be proved right at these inputs"
    )


def test_a_backward_meant_for_another_function():
    def rounded(ctx, x):
        return torch.round(x)

    why = kit.why_not(kit.function(rounded), randn(4, 5), surrogate=lambda x: 1 * x)
    assert why == "the backward is meant for the surrogate, which needs none"


def test_numpy():
    report = gradproof.check(
        np.sin, np.ones(3), vjp=lambda g, x: g * np.cos(x), suggest=True
    )
    assert report.record.no_suggestion == "the forward is no PyTorch code"


def test_a_raw_pair_and_several():
    report = gradproof.check(
        torch.sin, randn(3), vjp=lambda g, x: g * x.cos(), suggest=True, ways=False
    )
    assert report.record.no_suggestion == (
        "no autograd.Function was applied, and one was expected"
    )

    def once(ctx, x):
        return x * 2

    one, other = kit.function(once, "One"), kit.function(once, "Other")
    why = kit.why_not(lambda x: one.apply(other.apply(x)), randn(3))
    assert why == "several autograd.Function was applied, and one was expected"


def test_a_container_of_tensors():
    from gradproof.adapters import torch_suggest
    from gradproof.adapters.torch_suggest_expr import CannotSay

    def listed(ctx, xs):
        return xs[0] * 2

    with pytest.raises(CannotSay, match=r"^xs holds tensors inside a list$"):
        torch_suggest._with_extents(kit.function(listed), ([randn(3)],), ([randn(4)],))


def test_what_is_not_computed_by_pytorch():
    from gradproof.adapters import torch_suggest
    from gradproof.adapters.torch_suggest_expr import CannotSay

    def constant(ctx, x):
        return 3.0

    with pytest.raises(CannotSay, match="returns nothing that PyTorch computed"):
        torch_suggest.suggest(kit.function(constant), (randn(4, 5),))


def test_a_forward_that_raises_when_it_is_looked_through():
    def strict(ctx, x):
        if type(x.shape[0]) is not int:
            raise ValueError("an int was expected")
        return x * 2

    assert kit.why_not(kit.function(strict), randn(4, 5)) == (
        "the forward raised ValueError when it was looked through"
    )


def test_keyword_arguments():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x, factor=2.0):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.factor, None

    def called(x):
        return Scaled.apply(x, factor=3.0)

    why = kit.why_not(called, randn(3))
    assert why == "it was called with keyword arguments"
