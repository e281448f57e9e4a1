"""Rows 1 to 9, 36 and 43: what becomes of grad_output, and of memory."""

from __future__ import annotations

import ctypes

import torch
from row_kit import packed, positive, randn, row
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x**2


class CubePacked(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * packed(g) * x**2


def read(address, n):
    """``n`` doubles from ``address`` on, whatever is there: a kernel's pointer walk."""
    memory = (ctypes.c_double * n).from_address(address)
    return torch.tensor(list(memory), dtype=torch.float64)


class CubeBeyond(Cube):
    """Walks over a stride of 0 as if every element had its own place."""

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if g.numel() and not any(g.stride()):
            g = read(g.data_ptr(), g.numel()).reshape(g.shape)
        return 3 * g * x**2


class CubeInput(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * packed(x) ** 2


class CubeRelu(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g.relu() * x**2


class CubeClamped(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g.clamp(-1, 1) * x**2


class CubeSquared(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g**2 * x**2


class SumOfSquares(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * x).sum()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class SumAsFlag(SumOfSquares):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * (g != 0)


class SumForgotten(SumOfSquares):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x


class SinCos(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, gs, gc):
        (x,) = ctx.saved_tensors
        out = torch.zeros_like(x)
        if gs is not None:
            out = out + gs * x.cos()
        if gc is not None:
            out = out - gc * x.sin()
        return out


class SinCosElif(SinCos):
    @staticmethod
    def backward(ctx, gs, gc):
        (x,) = ctx.saved_tensors
        if gs is not None:
            return gs * x.cos()
        if gc is not None:
            return -gc * x.sin()
        return None


class SinCosProduct(SinCos):
    @staticmethod
    def backward(ctx, gs, gc):
        out = SinCos.backward(ctx, gs, gc)
        if gs is not None and gc is not None:
            out = out + gs * gc
        return out


class CountFirst(Function):
    """A float that has no gradient comes first."""

    @staticmethod
    def forward(ctx, x):
        count = (x > 0).sum().to(x.dtype)
        ctx.mark_non_differentiable(count)
        return count, 3 * x

    @staticmethod
    def backward(ctx, _, g):
        return 3 * g


class CountFirstTwo(CountFirst):
    @staticmethod
    def backward(ctx, _, g):
        return 2 * g


def matrix():
    return (randn(3, 4),)


ROWS = (
    row(1, "packed grad_output", CubePacked, Cube, matrix, "layout-assumed"),
    row(2, "reads past a stride of 0", CubeBeyond, Cube, matrix, "layout-assumed"),
    row(3, "relu of g", CubeRelu, Cube, matrix, "nonlinear-cotangent"),
    row(4, "g clamped", CubeClamped, Cube, matrix, "nonlinear-cotangent"),
    row(5, "g squared", CubeSquared, Cube, matrix, "nonlinear-cotangent"),
    row(6, "g as a flag", SumAsFlag, SumOfSquares, matrix, "nonlinear-cotangent"),
    row(7, "g forgotten", SumForgotten, SumOfSquares, matrix, "dropped-cotangent"),
    row(8, "elif of outputs", SinCosElif, SinCos, matrix, "ignored-output"),
    row(9, "product of outputs", SinCosProduct, SinCos, matrix, "nonlinear-cotangent"),
    row(36, "packed x", CubeInput, Cube, matrix, "layout-assumed"),
    row(
        43, "2 for 3, behind a count", CountFirstTwo, CountFirst,
        lambda: (positive(7),), "wrong-factor",
    ),
)  # fmt: skip
