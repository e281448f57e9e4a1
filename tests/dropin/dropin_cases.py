"""Situations that a program may bring to gradcheck, with what it may rely on.

Each is used twice: against the text that it states, with torch's own functions out of
reach, and against what torch's own functions do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd import Function, forward_ad

DOUBLE = torch.float64
COMPLEX = torch.complex128
MISMATCH = r"^Jacobian mismatch for output 0 with respect to input 0,\nnumerical:"


def leaf(*shape: int, dtype: torch.dtype = DOUBLE) -> torch.Tensor:
    """Values in [0.5, 1.5), the same on every call, requiring grad."""
    n = int(torch.tensor(shape).prod()) if shape else 1
    flat = 0.5 + (torch.arange(n, dtype=DOUBLE) * 0.61803398875) % 1.0
    out = flat.reshape(shape).to(dtype)
    if dtype.is_complex:
        out = out * (1 - 0.5j)
    return out.requires_grad_()


@dataclass(frozen=True)
class Case:
    """``make`` gives the function and its inputs; ``error`` None means True."""

    name: str
    make: Callable[[], tuple[Callable[..., Any], Any]]
    options: dict[str, Any] = field(default_factory=dict)
    error: type[BaseException] | None = None
    match: str = ""
    caught: bool = True  # raise_exception=False turns the error into False


def hooked(change: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    """The identity, whose gradient passes through ``change``."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.register_hook(change)
        return y

    return fn


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class WrongSquare(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * g


class WrongSecond(Function):
    """x³ whose gradient is right, and whose gradient's gradient is not."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x.detach() * x * g


class Jittered(Function):
    @staticmethod
    def forward(ctx, x, jitter):
        ctx.jitter = jitter
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        noise = 1 + torch.rand_like(g) * ctx.jitter
        return Jittered.apply(g, ctx.jitter) * noise, None


class PairWithTangents(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, a, b):
        return a * 2, b * 3

    @staticmethod
    def jvp(ctx, x, y):
        return x * 2, y * 3


class WrongTangent(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, x):
        return x * 2.5


class NoUndefined(Function):
    """Two outputs; takes it that both gradients are always there."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        if a is None or b is None:
            message = "no gradient came"
            raise RuntimeError(message)
        return 2 * a + 3 * b


class UndefinedIsOne(Function):
    """Takes a missing gradient for ones."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * (torch.ones_like(x) if g is None else g)


class SparseGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.to_sparse()


class RandomTangent(Function):
    """Draws in its jvp, which vmap refuses."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, x):
        torch.randn_like(x)
        return x * 2


class Unbatchable(Function):
    """Its backward turns the gradient into Python numbers."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return torch.tensor([2 * v.item() for v in g], dtype=g.dtype)


class SeesTheBatch(Function):
    """Another gradient under vmap than in a loop."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * (5 if torch._C._functorch.is_legacy_batchedtensor(g) else 2)


def with_wrong_tangent(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
    """x + y, y; under forward mode y has a tangent that is 10 % too large."""
    if forward_ad._current_level >= 0:
        value, tangent = forward_ad.unpack_dual(y)
        y = forward_ad.make_dual(value, tangent * 1.1)
    return x + y, y


def grown(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x]) if bool((x >= 1).all()) else x


def narrowed(x: torch.Tensor) -> torch.Tensor:
    return x.float() if bool((x >= 1).all()) else x


def ones(*shape: int, dtype: torch.dtype = DOUBLE) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, requires_grad=True)


def sparse_gradient_of_one_dimension(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.register_hook(lambda g: g.to_dense().to_sparse(1))
    return y.to_dense()


def dense_with_shift(x: torch.Tensor) -> torch.Tensor:
    y = x.clone().to_dense()
    y.register_hook(lambda g: g + 1e-2)
    return y


def shifted(x: torch.Tensor) -> torch.Tensor:
    return x + 1e-2


LOOSE = {"atol": 1e-1}
MASKED = {"atol": 1e-1, "masked": True}

RIGHT = (
    Case("one tensor", lambda: (lambda x: x.mul(5), leaf(10))),
    Case("scalar", lambda: (torch.sin, leaf())),
    Case("list of inputs", lambda: (torch.matmul, [leaf(2, 3), leaf(3, 2)])),
    Case("list of outputs", lambda: (lambda x: [x * 2, x.sin()], (leaf(3),))),
    Case("an input that is no tensor", lambda: (lambda x, k: x**k, (leaf(3), 2))),
    Case("an input without grad", lambda: (torch.mul, (leaf(3), leaf(3).detach()))),
    Case("custom function", lambda: (Square.apply, (leaf(4),))),
    Case("strided input", lambda: (torch.sin, (leaf(3, 4).detach().t().requires_grad_(),))),
    Case("no element", lambda: (torch.sin, (leaf(0, 3),))),
    Case("unused input", lambda: (lambda x, _y: x.sin(), (leaf(2), leaf(2)))),
    Case("no output", lambda: (lambda _x: (), (leaf(1),))),
    Case("constant output", lambda: (lambda _x: torch.ones(2), (leaf(2),))),
    Case("one tensor twice", lambda: ((lambda x: (torch.mul, (x, x)))(leaf(3)))),
    Case("a view of a leaf", lambda: (torch.sin, (leaf(4) * 2,))),
    Case("in place on a copy", lambda: (lambda x: x.clone().mul_(3).sin_(), (leaf(3),))),
    Case("output is the input", lambda: (lambda x: x, (leaf(3),))),
    Case("gradient undefined for one input", lambda: (PairWithTangents.apply, (leaf(2), leaf(2)))),
    Case("complex to complex", lambda: (lambda z: z * z + z.conj(), (leaf(3, dtype=COMPLEX),))),
    Case("complex to real", lambda: (torch.abs, (leaf(3, dtype=COMPLEX),))),
    Case("real to complex", lambda: (torch.complex, (leaf(3), leaf(3)))),
    Case("complex and real outputs", lambda: (lambda z: (z * 2, z.real), (leaf(2, dtype=COMPLEX),))),
    Case("complex and real inputs", lambda: (torch.mul, (leaf(2, dtype=COMPLEX), leaf(2)))),
    Case("forward mode", lambda: (torch.mul, (leaf(3), leaf(3))), {"check_forward_ad": True}),
    Case("forward mode, complex", lambda: (torch.mul, (leaf(2, dtype=COMPLEX), leaf(2, dtype=COMPLEX))), {"check_forward_ad": True}),
    Case("forward mode, complex output", lambda: (lambda x: x * 1j, (leaf(3),)), {"check_forward_ad": True}),
    Case("forward mode, custom", lambda: (PairWithTangents.apply, (leaf(2), leaf(2))), {"check_forward_ad": True, "check_batched_forward_grad": True}),
    Case("forward mode only", lambda: (torch.sin, (leaf(3),)), {"check_forward_ad": True, "check_backward_ad": False, "check_undefined_grad": False}),
    Case("forward mode, unused input", lambda: (lambda x, _y: x.clone(), (leaf(2), leaf(2))), {"check_forward_ad": True, "check_batched_forward_grad": True}),
    Case("batched gradients", lambda: (torch.mul, (leaf(3), leaf(3))), {"check_batched_grad": True}),
    Case("batched gradients, unused input", lambda: (lambda x, _y: x.sin(), (leaf(2), leaf(2))), {"check_batched_grad": True}),
    Case("gradient dtypes", lambda: (torch.mul, (leaf(3), leaf(3, dtype=COMPLEX))), {"check_grad_dtypes": True}),
    Case("noise within nondet_tol", lambda: (lambda x: Jittered.apply(x, 1e-7), (leaf(3),)), {"nondet_tol": 1e-5}),
    Case("caller's tolerance", lambda: (lambda x: WrongSquare.apply(x) * 1.0, (leaf(2),)), {"atol": 10.0, "rtol": 0.0}),
)  # fmt: skip


def _wrong(name, make, match, options=None, error=RuntimeError, *, caught=True):
    return Case(name, make, options or {}, error, match, caught)


IMAGINARY = (
    "^While considering the imaginary part of complex outputs only, Jacobian mismatch "
    "for output 0 with respect to input 0,\nnumerical:"
)
FORWARD = {"check_forward_ad": True}
FORWARD_MISMATCH = "^Jacobian computed with forward mode mismatch for output 0 with "

WRONG = (
    _wrong("wrong factor", lambda: (WrongSquare.apply, (leaf(3),)), MISMATCH),
    _wrong("second pair", lambda: (lambda x, y: (x * y, x * WrongSquare.apply(y)), (leaf(2), leaf(2))), "^Jacobian mismatch for output 1 with respect to input 1,"),
    _wrong("complex outputs", lambda: (hooked(shifted), (ones(2, dtype=COMPLEX),)), IMAGINARY),
    _wrong("real to complex", lambda: (lambda x: hooked(shifted)(torch.complex(x, x)), (ones(2),)), IMAGINARY),
    _wrong("complex to real", lambda: (lambda z: hooked(shifted)(z.real), (ones(2, dtype=COMPLEX),)), MISMATCH),
    _wrong("detached", lambda: (torch.detach, (leaf(2),)), "^Numerical gradient for function expected to be zero$"),
    _wrong("not repeatable", lambda: (lambda x: Jittered.apply(x, 1e-6), (leaf(3),)), r"^Backward is not reentrant, .*\.The tolerance for nondeterminism was 0\.0\.\n"),
    _wrong("not repeatable beyond nondet_tol", lambda: (lambda x: Jittered.apply(x, 1e-1), (leaf(3),)), r"^Backward is not reentrant, .* was 1e-05\.\n", {"nondet_tol": 1e-5}),
    _wrong("constant gradient", lambda: (hooked(shifted), (ones(1),)), "^backward not multiplied by grad_output$", LOOSE),
    _wrong("constant gradient, sparse", lambda: (dense_with_shift, (ones(1).detach().to_sparse().requires_grad_(),)), "^backward not multiplied by grad_output$", MASKED),
    _wrong("layout of the gradient", lambda: (SparseGradient.apply, (ones(1),)), r"^grad is incorrect layout \(torch\.sparse_coo is not torch\.strided\)$"),
    _wrong("sparse dimensions of the gradient", lambda: (sparse_gradient_of_one_dimension, (ones(2, 2).detach().to_sparse().requires_grad_(),)), "^grad is sparse tensor, but has incorrect sparse_dim 1, expected 2$", MASKED),
    _wrong("forward mode", lambda: (with_wrong_tangent, (leaf(2), leaf(2))), FORWARD_MISMATCH + "respect to input 1,", FORWARD),
    _wrong("forward mode, complex", lambda: (with_wrong_tangent, (leaf(2, dtype=COMPLEX), leaf(2, dtype=COMPLEX))), "^While considering the imaginary part of complex inputs only, Jacobian computed with forward mode mismatch for output 0", FORWARD),
    _wrong("forward mode, custom", lambda: (WrongTangent.apply, (leaf(2),)), FORWARD_MISMATCH, FORWARD),
    _wrong("batched backward raises", lambda: (Unbatchable.apply, (leaf(2),)), r"^While computing batched gradients, got: [^\n]*\n(.|\n)*\ngradcheck or gradgradcheck failed while testing batched gradient", {"check_batched_grad": True}),
    _wrong("batched backward differs", lambda: (SeesTheBatch.apply, (leaf(2),)), r"^For output 0 and input 0:\n\ngradcheck or gradgradcheck failed (.|\n)*Got:\n(.|\n)*Expected:\n", {"check_batched_grad": True}),
    _wrong("batched forward raises", lambda: (RandomTangent.apply, (leaf(2),)), r"^While computing batched gradients, got: vmap: We do not yet support calling random operations", {"check_forward_ad": True, "check_batched_forward_grad": True}),
    _wrong("caller's rtol", lambda: (torch.exp, (leaf(3),)), MISMATCH, {"eps": 1e-2, "atol": 0.0, "rtol": 1e-9}),
)  # fmt: skip


def refuses_undefined(g: Any) -> None:
    if g is None:
        message = "x is undefined"
        raise RuntimeError(message)


UNDEFINED_REFUSED = Case(
    "undefined raises",
    lambda: (hooked(refuses_undefined), (ones(1),)),
    {},
    RuntimeError,
    "^Expected backward function to handle undefined output grads. Please look at "
    '"Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"$',
)

PRECONDITIONS = (
    _wrong("nothing requires grad", lambda: (torch.sin, (leaf(2).detach(),)), "^gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.$", error=ValueError, caught=False),
    _wrong("expanded input", lambda: (torch.sin, (leaf(1).expand(2, 2),)), "^The 0th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck.$", caught=False),
    _wrong("sparse output", lambda: (lambda x: x.to_sparse(), (leaf(2),)), r"^Sparse output is not supported at gradcheck yet. Please call to_dense\(masked_grad=\.\.\.\) on the output of fn for gradcheck.$", error=ValueError, caught=False),
    _wrong("no mode", lambda: (torch.sin, (leaf(2),)), "^Expected at least one of check_forward_ad or check_backward_ad to be True$", {"check_backward_ad": False}, AssertionError, caught=False),
    _wrong("batched without backward", lambda: (torch.sin, (leaf(2),)), "^Setting check_batched_grad=True requires check_backward_ad to be True$", {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True}, AssertionError, caught=False),
    _wrong("batched without forward", lambda: (torch.sin, (leaf(2),)), "^Setting check_batched_forward_grad=True requires check_forward_ad to be True$", {"check_batched_forward_grad": True}, AssertionError, caught=False),
    _wrong("shape follows values", lambda: (grown, (ones(1),)), r"^Expected `func` to return outputs with the same shape when inputs are perturbed (on index \(0,\) )?by 1e-06, but got: shapes torch.Size\(\[1\]\) and torch.Size\(\[2\]\)\.$", error=AssertionError, caught=False),
    _wrong("dtype follows values", lambda: (narrowed, (ones(1),)), r"^Expected `func` to return outputs with the same dtype when inputs are perturbed (on index \(0,\) )?by 1e-06, but got: dtypes torch.float64 and torch.float32\.$", error=AssertionError, caught=False),
    _wrong("the function raises", lambda: (lambda x: x @ x, (leaf(2, 3),)), "mat1 and mat2 shapes", caught=False),
    _wrong("an output that is no tensor", lambda: (lambda x: (x, None), (leaf(2),)), "has no attribute 'requires_grad'", error=AttributeError, caught=False),
)  # fmt: skip
