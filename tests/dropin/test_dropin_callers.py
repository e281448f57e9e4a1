"""What programs hand to gradcheck and gradgradcheck: the public doors say what PyTorch says.

Each situation is right unless its name says otherwise; what is right is True in both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import Function, functional
from torch.autograd import forward_ad as dual
from torch.autograd.function import once_differentiable
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import gradproof

COMPARES_WITH_TORCH = True

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),
]


def leaf(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 1)
    t = torch.randn(shape, generator=generator, dtype=dtype)
    return t.requires_grad_()


class Square(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 2 * tangent * x


class Once(Square):
    generate_vmap_rule = False

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


class Raising(Square):
    @staticmethod
    def backward(ctx, g):
        raise ValueError("no such kernel")


class Optional(Function):
    """Undefined cotangents stay undefined."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, g, h):
        return None if g is None else 2 * g, None if h is None else 3 * h


def written_through_views(x, y):
    out = x.clone()
    out.narrow(0, 1, 2).select(1, 0).mul_(y)
    out[0] = y.sum()
    return out


def hooked(factor):
    def call(x):
        y = x * 2
        y.register_hook(lambda g: None if g is None else g * factor)
        return y * x

    return call


def offloaded(x):
    with save_on_cpu():
        return (x * x).exp()


def repacked(x):
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        return x.sin() * x


def spoilt(x):
    with saved_tensors_hooks(lambda t: 2 * t, lambda t: t):
        return x * x


def pushed(x, tangent):
    with dual.dual_level():
        y = dual.make_dual(x, tangent)
        return dual.unpack_dual(y.sin() * y).tangent


def sparse_and_back(values):
    places = torch.tensor([[0, 1, 2], [1, 0, 2]])
    t = torch.sparse_coo_tensor(places, values, (3, 3))
    return (t + t).coalesce().values()


def twice_real(z):
    a, b = torch.view_as_real(z.clone()).unbind(-1)
    return a * b


def turned(z):
    z = z.clone()
    torch.view_as_real(z).mul_(2)
    return z


def with_parameters(module):
    module = module.double()
    names = [name for name, _ in module.named_parameters()]

    def call(x, *parameters):
        given = dict(zip(names, parameters, strict=True))
        out = torch.func.functional_call(module, given, (x,))
        return out[0] if isinstance(out, tuple) else out

    return call, tuple(module.parameters())


def recurrent():
    call, parameters = with_parameters(nn.GRU(2, 2))
    return call, (leaf(2, 1, 2), *parameters)


def normalised():
    call, parameters = with_parameters(nn.BatchNorm1d(3))
    return call, (leaf(4, 3), *parameters)


def cube(x):
    return (x**3).sum()


Z = torch.complex128
SITUATIONS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "a vmap rule": lambda: (torch.vmap(Square.apply), leaf(3, 2)),
    "once differentiable": lambda: (Once.apply, leaf(3)),
    "a backward that raises": lambda: (Raising.apply, leaf(3)),
    "undefined cotangents": lambda: (Optional.apply, (leaf(2), leaf(2))),
    "an output without grad": lambda: (lambda x: (2 * x, x.detach()), leaf(3)),
    "statistics without grad": lambda: (
        lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
        leaf(4, 3),
    ),
    "writing through views": lambda: (written_through_views, (leaf(4, 2), leaf(2))),
    "a hook": lambda: (hooked(1), leaf(3)),
    "a hook that is wrong": lambda: (hooked(2), leaf(3)),
    "offloaded": lambda: (offloaded, leaf(3)),
    "saved elsewhere": lambda: (repacked, leaf(3)),
    "saved wrong": lambda: (spoilt, leaf(3)),
    "a checkpoint": lambda: (
        lambda x: checkpoint(lambda t: t.sin() * t, x, use_reentrant=False),
        leaf(3),
    ),
    "a jvp inside": lambda: (pushed, (leaf(3), leaf(3))),
    "a grad inside": lambda: (torch.func.grad(cube), leaf(3)),
    "a vjp inside": lambda: (
        lambda x, v: functional.vjp(lambda t: t.sin() * t, x, v, create_graph=True),
        (leaf(3), leaf(3)),
    ),
    "a Hessian inside": lambda: (
        lambda x: functional.hessian(cube, x, create_graph=True),
        leaf(2),
    ),
    "a sparse tensor inside": lambda: (sparse_and_back, leaf(3)),
    "parts of a complex view": lambda: (twice_real, leaf(3, dtype=Z)),
    "written as real numbers": lambda: (turned, leaf(3, dtype=Z)),
    "a recurrent module": recurrent,
    "running statistics": normalised,
    "a list to one tensor": lambda: (lambda *a: torch.cat(a), [leaf(2), leaf(3)]),
    "winners": lambda: (
        lambda x, s: x.scatter_reduce(0, torch.tensor([0, 0, 1]), s, reduce="amax"),
        (leaf(3), leaf(3) + 0.5),
    ),
    "overlapping views": lambda: (lambda x: x.as_strided((3, 3), (2, 1)), leaf(8)),
    "a loss of indices": lambda: (
        lambda x: F.cross_entropy(x, torch.tensor([0, 2]), label_smoothing=0.1),
        leaf(2, 3),
    ),
    "attention": lambda: (
        F.scaled_dot_product_attention,
        (leaf(1, 3, 2), leaf(1, 4, 2), leaf(1, 4, 2)),
    ),
}


def outcome(check: Callable[..., bool], make: Callable[[], Any], **options: Any) -> Any:
    """True, or the class of the error and its first line."""
    torch.manual_seed(0)
    thing, inputs = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return check(thing, inputs, **options)
        except Exception as error:
            return type(error).__name__, str(error).partition("\n")[0]


@pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_gradcheck_says_what_pytorch_says(name: str, fast: bool) -> None:
    make = SITUATIONS[name]
    theirs = outcome(torch.autograd.gradcheck, make, fast_mode=fast)
    assert outcome(gradproof.gradcheck, make, fast_mode=fast) == theirs
    right = "wrong" not in name and "raises" not in name
    assert (theirs is True) == right


@pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("name", SITUATIONS)
def test_gradgradcheck_says_what_pytorch_says(name: str, fast: bool) -> None:
    make = SITUATIONS[name]
    theirs = outcome(torch.autograd.gradgradcheck, make, fast_mode=fast)
    assert outcome(gradproof.gradgradcheck, make, fast_mode=fast) == theirs


@pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize(
    "name", ["a vmap rule", "a grad inside", "a list to one tensor"]
)
def test_forward_mode_and_batches_say_what_pytorch_says(name: str, fast: bool) -> None:
    make = SITUATIONS[name]
    more = {"check_batched_grad": True, "check_forward_ad": True, "fast_mode": fast}
    ask = partial(outcome, make=make, check_batched_forward_grad=True, **more)
    assert ask(gradproof.gradcheck) == ask(torch.autograd.gradcheck)
