"""What float32 makes of a float64 question is not held against autocast."""

from __future__ import annotations

import torch

import gradproof


class ArcCosine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.acos(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return -grad_output / torch.sqrt((1 - x) * (1 + x))


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.cos()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        factor = 1 if grad_output.dtype is x.dtype else 2
        g = grad_output.to(x.dtype)
        return factor * g @ w.t(), x.t() @ g


def slugs(fn, *inputs):
    return [f.slug for f in gradproof.check(fn, inputs).findings]


def test_values_that_float32_cannot_hold():
    edge = torch.tensor([1 - 1e-8, 0.3, -0.99], dtype=torch.float64)
    assert "autocast-mismatch" not in slugs(ArcCosine, edge)
    huge = torch.tensor([1e300, 1e305], dtype=torch.float64)
    assert "autocast-mismatch" not in slugs(Sine, huge)


def test_values_at_which_float32_is_another_question():
    far = torch.tensor([1e9 + 0.3, 2.5e9 + 0.7], dtype=torch.float64)
    assert "autocast-mismatch" not in slugs(Sine, far)


def test_a_backward_that_is_wrong_under_autocast_is_still_told():
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
    w = torch.linspace(-2, 1, 8, dtype=torch.float64).reshape(4, 2)
    assert "autocast-mismatch" in slugs(Product, x, w)
