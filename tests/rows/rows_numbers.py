"""Rows 17 to 23 and 37 to 42: numbers that a tolerance, a size or a point hides."""

from __future__ import annotations

import math

import torch
from row_kit import positive, randn, row
from torch.autograd import Function


class Sin(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @classmethod
    def backward(cls, ctx, g):
        (x,) = ctx.saved_tensors
        return cls.spoil(x, g, g * x.cos())

    @staticmethod
    def spoil(x, g, out):
        return out


def sin_with(spoil):
    return type("Sin", (Sin,), {"spoil": staticmethod(spoil)})


def no_tail(x, g, out):
    done = out.numel() // 64 * 64
    return torch.cat([out[:done], torch.zeros_like(out[done:])])


def one_zero(x, g, out):
    keep = torch.arange(out.numel()) != out.numel() // 3
    return out * keep


def last_percent(x, g, out):
    done = out.numel() - out.numel() // 100
    return torch.cat([out[:done], torch.zeros_like(out[done:])])


def rolled(x, g, out):
    return out.roll(1)


def mean_of_g(x, g, out):
    return g.mean() * x.cos()


def alternating(x, g, out):
    sign = 1.0 - 2.0 * (torch.arange(out.numel()) % 2)
    return out * (1 + 0.3 * sign)


def more(share):
    return lambda x, g, out: out * (1 + share)


def nothing(x, g, out):
    return torch.zeros_like(out)


class Times(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x


class TimesSwapped(Times):
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * x, g * y


class LoRA(Function):
    """x A B."""

    factor = 1.0

    @staticmethod
    def forward(ctx, x, a, b):
        ctx.save_for_backward(x, a, b)
        return x @ a @ b

    @classmethod
    def backward(cls, ctx, g):
        x, a, b = ctx.saved_tensors
        g = g.to(x.dtype)
        return g @ b.mT @ a.mT, cls.factor * (x.mT @ (g @ b.mT)), (x @ a).mT @ g


class LoRAMore(LoRA):
    factor = 5.0


class Softplus(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.logaddexp(x, torch.zeros_like(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.sigmoid()


class SoftplusBranch(Softplus):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.where(x > 6, x, x.sigmoid())


class SoftplusOverflow(Softplus):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        e = x.exp()
        return g * e / (1 + e)


class AuxLoss(Function):
    """A hundredth of the mean cross-entropy of 64 rows."""

    term = True

    @staticmethod
    def forward(ctx, x, target):
        ctx.save_for_backward(x, target)
        return 0.01 * torch.nn.functional.cross_entropy(x, target)

    @classmethod
    def backward(cls, ctx, g):
        x, target = ctx.saved_tensors
        one_hot = torch.nn.functional.one_hot(target, x.shape[1]).to(x.dtype)
        softmax = x.softmax(-1) if cls.term else 0.0
        return 0.01 * g * (softmax - one_hot) / x.shape[0], None


class AuxLossShort(AuxLoss):
    term = False


class Tiny(Function):
    factor = 1e-6

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 1e-6 * x.sin()

    @classmethod
    def backward(cls, ctx, g):
        (x,) = ctx.saved_tensors
        return cls.factor * g * x.cos()


class TinyNothing(Tiny):
    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)


class Circle(Function):
    pi = math.pi

    @staticmethod
    def forward(ctx, r):
        ctx.save_for_backward(r)
        return math.pi * r * r

    @classmethod
    def backward(cls, ctx, g):
        (r,) = ctx.saved_tensors
        return 2 * cls.pi * r * g


class CircleSchool(Circle):
    pi = 3.14


class Normalised(Function):
    """Layer norm without weights, over 1024 features."""

    correction = 0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        std = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        return (x - x.mean(-1, keepdim=True)) / std

    @classmethod
    def backward(cls, ctx, g):
        (x,) = ctx.saved_tensors
        var = x.var(-1, correction=cls.correction, keepdim=True)
        r = (var + 1e-5).rsqrt()
        h = (x - x.mean(-1, keepdim=True)) * r
        return r * (g - g.mean(-1, keepdim=True) - h * (g * h).mean(-1, keepdim=True))


class NormalisedBessel(Normalised):
    correction = 1


class RMS(Function):
    eps = 1e-6

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()

    @classmethod
    def backward(cls, ctx, g):
        (x,) = ctx.saved_tensors
        r = (x.square().mean(-1, keepdim=True) + cls.eps).rsqrt()
        return r * g - r**3 * x * (g * x).mean(-1, keepdim=True)


class RMSWithout(RMS):
    eps = 0.0


class ComplexSquare(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * z

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return 2 * g * z.conj()


class ComplexSquareWrong(ComplexSquare):
    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return 2 * g * z


# Where the evidence of so small or so large a question singles out no kind.
GENERAL = "wrong-gradient"


def vector(n, **how):
    return lambda: (randn(n, **how),)


def ones():
    return torch.ones(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)


def lora():
    b = torch.zeros(2, 5, dtype=torch.float64)
    return randn(3, 4), randn(4, 2, seed=2), b.requires_grad_()


def logits():
    target = torch.arange(64) % 10
    return randn(64, 10), target


def spread(*large):
    values = torch.tensor([-2.0, -0.5, 0.25, 1.5, *large], dtype=torch.float64)
    return lambda: (values,)


def complex_vector():
    return (torch.complex(randn(5).detach(), randn(5, seed=2).detach()),)


def sin(number, what, spoil, n, *slugs):
    return row(number, what, sin_with(spoil), Sin, vector(n), *slugs)


ROWS = (
    sin(17, "tail of a block", no_tail, 100, "unwritten-region"),
    row(18, "swapped at ones", TimesSwapped, Times, ones, "swapped-gradients"),
    row(19, "A 5 times at B 0", LoRAMore, LoRA, lora, "wrong-factor"),
    row(
        20, "branch above 6", SoftplusBranch, Softplus, spread(7.0, 8.5),
        "wrong-at-value", GENERAL,
    ),
    row(
        20, "NaN at 800", SoftplusOverflow, Softplus, spread(800.0), "nan-gradient"
    ),
    row(21, "softmax term of 1e-2 CE", AuxLossShort, AuxLoss, logits, "missing-term", GENERAL),
    row(
        22, "zeros for 1e-6", TinyNothing, Tiny, vector(8), "stop-gradient",
        "missing-gradient",
    ),
    row(
        23, "3.14", CircleSchool, Circle, lambda: (positive(6),), "wrong-factor",
    ),
    row(
        23, "Bessel", NormalisedBessel, Normalised, lambda: (randn(2, 1024),),
        "wrong-factor", "forward-mismatch", GENERAL,
    ),
    row(
        23, "eps dropped", RMSWithout, RMS, lambda: (randn(4, 8, scale=1e-3),),
        "forward-mismatch", "missing-factor", "missing-term",
    ),
    row(
        37, "conj forgotten", ComplexSquareWrong, ComplexSquare, complex_vector,
        "missing-conjugate",
    ),
    sin(38, "one of 4096", one_zero, 4096, "unwritten-region", "leaked-region"),
    sin(39, "last percent", last_percent, 2048, "unwritten-region"),
    sin(39, "permutation", rolled, 2048, "shifted-index", GENERAL),
    sin(39, "mean of g", mean_of_g, 2048, "cotangent-read-as-scalar"),
    sin(40, "alternating", alternating, 1024, "wrong-factor", GENERAL),
    sin(41, "1 percent", more(0.01), 1024, "wrong-factor"),
    sin(41, "5 percent", more(0.05), 4096, "wrong-factor"),
    sin(41, "50 percent", more(0.5), 32768, "wrong-factor"),
    sin(42, "zeros at 131072", nothing, 131072, "stop-gradient", "missing-gradient"),
)  # fmt: skip
