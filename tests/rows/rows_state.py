"""Rows 10, 11, 25 to 27, 29, 30 and 35: memory, state and repetition."""

from __future__ import annotations

import ctypes
import itertools
from typing import ClassVar

import numpy as np
import torch
from row_kit import randn, row
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Exp2(Function):
    """exp(2x)."""

    @staticmethod
    def forward(ctx, x):
        y = (2 * x).exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return 2 * g * y


class Exp2OnCotangent(Exp2):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g.mul_(y).mul_(2)


class Exp2Workspace(Exp2):
    space: ClassVar[dict] = {}

    @classmethod
    @once_differentiable
    def backward(cls, ctx, g):
        (y,) = ctx.saved_tensors
        key = (tuple(y.shape), y.dtype)
        buffer = cls.space.setdefault(key, torch.empty_like(y))
        return torch.mul(g, 2 * y, out=buffer)


class Exp2OnClass(Exp2):
    y = None

    @classmethod
    def forward(cls, ctx, x):
        cls.y = (2 * x).exp()
        return cls.y.clone()

    @classmethod
    def backward(cls, ctx, g):
        return 2 * g * cls.y


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


class SquareAttribute(Square):
    """Holds its input on ctx, where the engine cannot see that it was edited since."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.x


class Exp2Circle(Exp2):
    @staticmethod
    def forward(ctx, x):
        ctx.y = (2 * x).exp()
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.y


def through_pointer(t, values):
    """Write ``values`` where ``t`` lies, past PyTorch's version counter."""
    flat = np.ascontiguousarray(values.detach().numpy())
    ctypes.memmove(t.data_ptr(), flat.ctypes.data, flat.nbytes)


class LogSumExp(Function):
    """Row-wise log-sum-exp whose forward leaves the gradient for the backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.softmax(-1))
        return x.logsumexp(-1)

    @staticmethod
    def backward(ctx, g):
        (p,) = ctx.saved_tensors
        return g[:, None] * p


class LogSumExpInPlace(LogSumExp):
    @staticmethod
    def forward(ctx, x):
        out = x.logsumexp(-1)
        through_pointer(x, x.softmax(-1))
        ctx.save_for_backward(x)
        return out


def cloned(rule):
    def op(x):
        return rule.apply(x.clone())

    return op


class Affine(Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * (x + 1)

    @staticmethod
    def backward(ctx, g):
        return 3 * g


class AffineInPlace(Affine):
    @staticmethod
    def forward(ctx, x):
        x += 1
        return 3 * x


class Racing(Square):
    """One backward of twenty loses an update."""

    calls = itertools.count()
    races = True

    @classmethod
    @once_differentiable
    def backward(cls, ctx, g):
        (x,) = ctx.saved_tensors
        out = 2 * g * x
        if cls.races and next(cls.calls) % 20 == 13:
            out.view(-1)[0] = 0.0
        return out


class Steady(Racing):
    races = False


def matrix():
    return (randn(3, 4),)


ROWS = (
    row(10, "g in place", Exp2OnCotangent, Exp2, matrix, "mutated-cotangent"),
    row(11, "workspace returned", Exp2Workspace, Exp2, matrix, "reused-buffer"),
    row(25, "state on the class", Exp2OnClass, Exp2, matrix, "stale-state"),
    row(
        26,
        "x on ctx",
        SquareAttribute,
        Square,
        matrix,
        "stale-state",
        severity="warning",
    ),
    row(
        27, "output on ctx", Exp2Circle, Exp2, matrix, "leaked-graph",
        severity="warning",
    ),
    row(
        29, "input overwritten", cloned(LogSumExpInPlace), cloned(LogSumExp), matrix,
        "mutated-input",
    ),
    row(
        30, "x += 1 unmarked", cloned(AffineInPlace), cloned(Affine), matrix,
        "mutated-input", "unmarked-inplace",
    ),
    row(35, "one of twenty", Racing, Steady, matrix, "nondeterministic"),
)  # fmt: skip
