"""Rows 12 to 16, 24 and 34: whether this backward runs, for what, and in which form."""

from __future__ import annotations

import torch
from row_kit import randn, row
from torch import nn
from torch.autograd import Function


class Tanh(Function):
    @staticmethod
    def forward(x):
        return x.tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


def forward_called(x):
    return 2 * Tanh.forward(x.detach())


def plainly_called(x):
    return 2 * Tanh.forward(x)


def applied(x):
    return 2 * Tanh.apply(x)


class Narrow(Function):
    """The kernel that takes float32 only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


class NarrowWrong(Narrow):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.sin()


def dispatching(kernel):
    def op(x):
        return x.sin() if x.dtype == torch.float64 else kernel.apply(x)

    return op


class Dispatching(Function):
    """The same, chosen in the backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


class DispatchingWrong(Dispatching):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.cos() if x.dtype == torch.float64 else x.sin())


class Product(Function):
    factor = 1.0

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @classmethod
    def backward(cls, ctx, g):
        x, w = ctx.saved_tensors
        g = g.to(x.dtype)
        return g @ w.mT, cls.factor * (x.mT @ g)


class ProductMore(Product):
    factor = 17.0


class Layer(nn.Module):
    def __init__(self, rule):
        super().__init__()
        self.rule = rule
        self.weight = nn.Parameter(randn(4, 3, seed=2).detach())

    def forward(self, x):
        return self.rule.apply(x, self.weight)


class Packed(Function):
    """Both gradients from one packed buffer, made where the first is needed."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


class PackedWrong(Packed):
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, None
        return g * w, g * x


class Both(Function):
    mark = False

    @classmethod
    def forward(cls, ctx, x):
        ctx.save_for_backward(x)
        y, z = x.sin(), x * x
        if cls.mark:
            ctx.mark_non_differentiable(z)
        return y, z

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * x.cos() + 2 * h * x


class BothMarked(Both):
    mark = True


class OneMarked(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.sin()
        ctx.mark_non_differentiable(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g


class One(OneMarked):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


class Shifted(Function):
    """Gradients are small integers times grad_output, exact in any dtype."""

    dtype = torch.float64

    @staticmethod
    def forward(ctx, x):
        return 4 * x + 1

    @classmethod
    def backward(cls, ctx, g):
        return (4 * g).to(cls.dtype)


class ShiftedSingle(Shifted):
    dtype = torch.float32


class ShiftedHalf(Shifted):
    dtype = torch.float16


class Old(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


class New(Function):
    generate_vmap_rule = True

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


def matrix():
    return (randn(3, 4),)


def two():
    return randn(3, 4), randn(3, 4, seed=2)


ROWS = (
    row(12, "forward called, cut", forward_called, applied, matrix, "no-graph"),
    row(12, "forward called", plainly_called, applied, matrix, "no-graph"),
    row(
        13, "another path in float64", dispatching(NarrowWrong), dispatching(Narrow),
        matrix, "dtype-dependent",
    ),
    row(
        13, "another backward in float64", DispatchingWrong, Dispatching, matrix,
        "dtype-dependent",
    ),
    row(14, "weight 17 times", Layer(ProductMore), Layer(Product), matrix, "wrong-factor"),
    row(15, "None when x is frozen", PackedWrong, Packed, two, "subset-dependent"),
    row(16, "one of two outputs marked", BothMarked, Both, matrix, "no-graph"),
    row(16, "the output marked", OneMarked, One, matrix, "no-graph"),
    row(
        24, "gradient in float32", ShiftedSingle, Shifted, matrix, "wrong-dtype",
        severity="warning",
    ),
    row(
        24, "gradient in float16", ShiftedHalf, Shifted, matrix, "wrong-dtype",
        severity="warning",
    ),
    row(
        34, "forward takes ctx", Old, New, matrix, "unsupported-transform",
        severity="note",
    ),
)  # fmt: skip
