"""Rows 28 and 31 to 33: second order, forward mode, vmap and autocast."""

from __future__ import annotations

import torch
from row_kit import randn, row
from torch.autograd import Function


class Tanh(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


class TanhIntermediate(Tanh):
    """Keeps 1 - y², which no graph knows."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(1 - y * y)
        return y

    @staticmethod
    def backward(ctx, g):
        (slope,) = ctx.saved_tensors
        return g * slope


class Times(Function):
    """x·w, with forward mode."""

    @staticmethod
    def forward(x, w):
        return x * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x

    @staticmethod
    def jvp(ctx, dx, dw):
        x, w = ctx.saved_tensors
        return dx * w + x * dw


class TimesWrongJvp(Times):
    @staticmethod
    def jvp(ctx, dx, dw):
        _, w = ctx.saved_tensors
        return dx * w


class Batched(Function):
    factor = 1.0

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()

    @classmethod
    def vmap(cls, info, in_dims, x):
        return cls.factor * cls.apply(x), in_dims[0]


class BatchedWrong(Batched):
    factor = 5.0


class Linear(Function):
    """A matrix product whose backward meets another dtype than its forward gave."""

    same = False

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @classmethod
    def backward(cls, ctx, g):
        x, w = ctx.saved_tensors
        if cls.same:
            g = g.to(x.dtype)
        return g @ w.mT, x.mT @ g


class LinearCast(Linear):
    same = True


def matrix():
    return (randn(3, 4),)


def two():
    return randn(3, 4), randn(3, 4, seed=2)


def product():
    return randn(3, 4, dtype=torch.float32), randn(4, 2, dtype=torch.float32, seed=2)


ROWS = (
    row(
        28, "saved intermediate", TanhIntermediate, Tanh, matrix,
        "detached-second-derivative", orders=2,
    ),
    row(31, "jvp", TimesWrongJvp, Times, two, "wrong-jvp"),
    row(32, "vmap 5 times", BatchedWrong, Batched, matrix, "wrong-vmap"),
    row(
        33, "dtype under autocast", Linear, LinearCast, product, "autocast-mismatch",
        severity="warning",
    ),
)  # fmt: skip
