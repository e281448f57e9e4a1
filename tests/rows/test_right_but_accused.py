"""Right gradients that torch.autograd.gradcheck accuses, or cannot be asked about.

Each PASSes, is UNDECIDED for the reason given, or is recognised as meant and accepted
once it is declared.
"""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from row_kit import positive, randn
from torch import nn
from torch.autograd import Function

import gradproof
from gradproof import Verdict
from gradproof.errors import UserCodeError
from gradproof.verdict import Severity

HALVES = [torch.float32, torch.float16, torch.bfloat16]


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def passes(fn, *inputs, **options):
    report = gradproof.check(fn, inputs, **options)
    assert report.verdict is Verdict.PASS, str(report)
    assert {f.severity for f in report.findings} <= {Severity.NOTE}, str(report)
    return report


class Sine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


class Matmul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        g = g.to(a.dtype)
        return g @ b.mT, a.mT @ g


class Softmax(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))


# --- dtypes with few digits


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("fn", [Sine, torch.sin], ids=["Function", "torch"])
def test_sin(dtype, fn):
    passes(fn, randn(4, 6, dtype=dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("fn", [Matmul, torch.matmul], ids=["Function", "torch"])
def test_matmul(dtype, fn):
    passes(fn, randn(4, 6, dtype=dtype), randn(6, 3, dtype=dtype, seed=2))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    "fn", [Softmax, lambda x: x.softmax(-1)], ids=["Function", "torch"]
)
def test_softmax(dtype, fn):
    passes(fn, randn(4, 6, dtype=dtype))


class SineInSingle(Function):
    """Takes and gives float64, and computes in float32."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().sin().double()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g.float() * x.float().cos()).double()


def test_single_inside_double_is_no_error():
    report = gradproof.check(SineInSingle, (randn(4, 6),))
    assert report.verdict is Verdict.PASS, str(report)
    assert {f.slug for f in report.findings if f.severity is Severity.WARNING} <= {
        "hidden-low-precision"
    }


# --- kinks


class Relu(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > 0)


@pytest.mark.parametrize("fn", [Relu, torch.relu], ids=["Function", "torch"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_relu_at_and_near_zero(fn, dtype):
    values = double(-1.5, 0.0, 1e-9, -3e-7, 0.75, 0.0).to(dtype)
    report = gradproof.check(fn, (values,))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"kink"}
    passes(fn, double(-1.5, 0.5, 0.25, 2.0).to(dtype))


def test_ties_of_a_max_pool():
    image = torch.ones(1, 1, 4, 4, dtype=torch.float64)
    image[..., 1:3, 1:3] = 2.0
    report = gradproof.check(lambda x: F.max_pool2d(x, 2), (image,))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"kink"}


@pytest.mark.parametrize("seed", range(8))
def test_a_max_pool_of_four_bit_values(seed):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randint(16, (1, 2, 8, 8), generator=generator).double() / 16
    report = gradproof.check(lambda x: F.max_pool2d(x, 2), (image,))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"kink"}


def test_sort_of_close_values():
    passes(lambda x: x.sort().values * double(1, 2, 3, 4), double(3, 1 + 5e-7, 1, -2))


# --- scales


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_square_at_1e8(dtype):
    passes(Square, double(1e8, -3.5e8, 2.25e8).to(dtype))


def test_sin_at_1e10():
    report = gradproof.check(Sine, (double(1e10, -2.5e10, 3.25e10),))
    assert report.verdict is not Verdict.FAIL, str(report)
    # Its argument has six digits after the point: a period is 3e6 numbers wide.
    assert {u.reason for u in report.record.undecided} <= {"noise", "scale"}


def test_a_square_beside_1e9():
    report = gradproof.check(
        lambda x: 1e9 + Square.apply(x), (double(0.5, -1.25, 2.0),)
    )
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"noise"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("fn", [torch.log, torch.reciprocal], ids=["log", "1/x"])
def test_steep_near_zero(fn, dtype):
    passes(fn, double(1e-6, 3e-6, 1e-5).to(dtype))


# --- domains


def test_sqrt_at_zero():
    report = gradproof.check(torch.sqrt, (double(0.0, 1.0, 4.0),))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"domain", "kink"}
    assert report.verdict is Verdict.UNDECIDED


def test_acos_near_one():
    report = gradproof.check(torch.acos, (double(1 - 1e-8, 0.5, -1 + 1e-8),))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"domain", "noise"}


# --- chance, noise, order


class Dropout(Function):
    @staticmethod
    def forward(ctx, x):
        mask = (torch.rand_like(x) > 0.5).to(x.dtype) * 2
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * mask


@pytest.mark.parametrize(
    "fn", [Dropout, lambda x: F.dropout(x, 0.5)], ids=["Function", "torch"]
)
def test_dropout(fn):
    passes(fn, randn(5, 6))


class Solver(Function):
    """Solves y + y³/3 = x by bisection, to 1e-9."""

    @staticmethod
    def forward(ctx, x):
        low, high = torch.full_like(x, -8.0), torch.full_like(x, 8.0)
        while (high - low).max() > 1e-9:
            mid = (low + high) / 2
            above = mid + mid**3 / 3 > x
            low, high = torch.where(above, low, mid), torch.where(above, mid, high)
        y = (low + high) / 2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g / (1 + y * y)


def test_a_solver_that_stops_at_1e_9():
    report = gradproof.check(Solver, (randn(6),))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"noise"}


class AnyOrder(Function):
    """Sums of squares, added in another order at each call."""

    calls = itertools.count()

    @classmethod
    def total(cls, t):
        order = torch.randperm(
            t.shape[-1], generator=torch.Generator().manual_seed(next(cls.calls))
        )
        return t[..., order].cumsum(-1)[..., -1]

    @classmethod
    def forward(cls, ctx, x, w):
        ctx.save_for_backward(x, w)
        return cls.total(x * w)

    @classmethod
    def backward(cls, ctx, g):
        x, w = ctx.saved_tensors
        return g[:, None] * w, cls.total((g[:, None] * x).mT)


def test_sums_in_random_order():
    report = passes(AnyOrder, randn(4, 30), randn(30, seed=2))
    assert {f.slug for f in report.findings} <= {
        "nondeterministic", "unsupported-transform",
    }  # fmt: skip


# --- constraints and gauges


def test_cholesky_of_a_symmetric_matrix():
    a = randn(4, 4).detach()
    spd = a @ a.T + 4 * torch.eye(4, dtype=torch.float64)
    report = gradproof.check(torch.linalg.cholesky, (spd,))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"domain"}


def test_eigenvectors_up_to_their_sign():
    def projector(a):
        _, v = torch.linalg.eigh((a + a.mT) / 2)
        return v[:, 0:1] @ v[:, 0:1].mT

    passes(projector, randn(4, 4))


def test_eigenvectors_themselves():
    def vectors(a):
        return torch.linalg.eigh((a + a.mT) / 2).eigenvectors

    report = gradproof.check(vectors, (randn(4, 4),))
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {u.reason for u in report.record.undecided} <= {"jump"}


# --- outputs and inputs of every kind


class MaxAndWhere(Function):
    """An integer comes first."""

    @staticmethod
    def forward(ctx, x):
        values, where = x.max(-1)
        ctx.mark_non_differentiable(where)
        ctx.save_for_backward(where)
        ctx.shape = x.shape
        return where, values

    @staticmethod
    def backward(ctx, _, g):
        (where,) = ctx.saved_tensors
        out = g.new_zeros(ctx.shape)
        return out.scatter(-1, where[..., None], g[..., None])


def test_an_integer_output_first():
    passes(MaxAndWhere, randn(4, 5))


class Normed(Function):
    """A float that has no gradient comes first."""

    @staticmethod
    def forward(ctx, x):
        count = torch.full((), float(x.numel()), dtype=x.dtype)
        ctx.mark_non_differentiable(count)
        ctx.save_for_backward(x)
        return count, x * x

    @staticmethod
    def backward(ctx, _, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


def test_a_float_without_gradient_first():
    passes(Normed, randn(4, 5))


def test_lists_dicts_and_nests():
    def fn(pair, more):
        return Sine.apply(pair[0]) * pair[1] + more["a"] * more["b"]["c"][0]

    report = passes(
        fn, [randn(3), randn(3, seed=2)],
        {"a": randn(3, seed=3), "b": {"c": (randn(3, seed=4), 2)}},
    )  # fmt: skip
    paths = [leaf.path for leaf in report.record.evidence.domain]
    assert len(paths) == 4


def test_keyword_arguments():
    def fn(x, *, scale, power=2):
        return scale * Sine.apply(x) ** power

    passes(fn, randn(3), kwargs={"scale": randn(3, seed=2), "power": 3})


def test_dict_none_and_float_among_the_outputs():
    def fn(x):
        return {"y": Sine.apply(x), "none": None, "pi": 3.14, "z": [x * x, "text"]}

    passes(fn, randn(3))


def test_an_expanded_input():
    passes(Sine, randn(3, 1).detach().expand(3, 4))


def test_an_input_that_overlaps_itself():
    passes(Sine, randn(8).detach().unfold(0, 4, 2))


def test_in_place_on_a_leaf():
    def fn(x):
        x.mul_(2)
        return Sine.apply(x)

    report = gradproof.check(fn, (randn(4),))
    assert report.verdict is Verdict.PASS, str(report)


def test_a_shape_that_depends_on_values():
    def fn(x):
        return Sine.apply(x[x > 0])

    report = gradproof.check(fn, (double(-1.0, 0.5, 2.0, 1e-12),))
    assert report.verdict is not Verdict.FAIL, str(report)
    passes(fn, double(-1.0, 0.5, 2.0))


# --- on purpose


class Rounded(Function):
    @staticmethod
    def forward(ctx, x):
        return (4 * x).round() / 4

    @staticmethod
    def backward(ctx, g):
        return g


class RoundedDeclared(Rounded):  # gradproof: allow[straight-through]
    @staticmethod
    def backward(ctx, g):
        return g


class Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return -g


class ReversedDeclared(Reversed):  # gradproof: allow[gradient-reversal]
    @staticmethod
    def backward(ctx, g):
        return -g


@pytest.mark.parametrize(
    ("fn", "declared", "slug", "surrogate"),
    [
        (Rounded, RoundedDeclared, "straight-through", lambda x: x),
        (Reversed, ReversedDeclared, "gradient-reversal", lambda x: -x),
    ],
    ids=["straight-through", "reversal"],
)
def test_meant_once_declared(fn, declared, slug, surrogate):
    x = randn(3, 4)
    report = gradproof.check(fn, (x,))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == slug
    assert f'allow=("{slug}",)' in report.findings[0].help.text
    assert gradproof.check(fn, (x,), allow=(slug,)).verdict is Verdict.PASS
    assert gradproof.check(declared, (x,)).verdict is Verdict.PASS
    passes(fn, x, surrogate=surrogate)


def test_a_surrogate_is_held_to_what_was_declared():
    report = gradproof.check(Reversed, (randn(4),), surrogate=lambda x: 2 * -x)
    assert report.verdict is Verdict.FAIL


# --- modules in one dtype, inputs in another


def test_a_module_in_float32_refuses_float64_in_a_sentence():
    with pytest.raises(UserCodeError, match="raised RuntimeError at the given inputs"):
        gradproof.check(nn.Linear(3, 2), (randn(4, 3),))


def test_the_same_module_in_its_own_dtype():
    torch.manual_seed(0)
    passes(nn.Linear(3, 2), randn(4, 3, dtype=torch.float32))


def test_a_device_without_float64_is_no_obstacle():
    class Single(Function):
        @staticmethod
        def forward(ctx, x):
            if x.dtype == torch.float64:
                raise TypeError("this device has no float64")
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.cos()

    passes(Single, randn(4, 6, dtype=torch.float32))


def test_a_positive_input_stays_positive():
    passes(lambda x: x.log().sum() * x, positive(5))
