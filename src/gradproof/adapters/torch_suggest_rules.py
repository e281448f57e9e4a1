"""The table of rules: elementwise operations and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gradproof.adapters.torch_suggest_expr import E, Spelling, is_number
from gradproof.adapters.torch_suggest_vjp import (
    Chain,
    Pairs,
    is_zero,
    rule,
)

Slope = Callable[[Chain, Any, Any], Any]


def _one(names: str, slope: Slope) -> None:
    """An elementwise function of one argument, by its derivative in (b, x, out)."""

    @rule(names, "x")
    def pulled(b: Chain, g: Any, out: E, a: Any) -> Pairs:
        return [(a.x, b.chain(g, slope(b, a.x, out)))]


_one("neg negative", lambda b, x, y: -1)
_one("exp", lambda b, x, y: y)
_one("expm1", lambda b, x, y: b.add(y, 1))
_one("exp2", lambda b, x, y: b.mul(math.log(2), y))
_one("log", lambda b, x, y: b.div(1, x))
_one("log2", lambda b, x, y: b.div(1 / math.log(2), x))
_one("log10", lambda b, x, y: b.div(1 / math.log(10), x))
_one("log1p", lambda b, x, y: b.div(1, b.add(1, x)))
_one("sqrt", lambda b, x, y: b.div(0.5, y))
_one("rsqrt", lambda b, x, y: b.mul(-0.5, b.pow(y, 3)))
_one("reciprocal", lambda b, x, y: b.neg(b.pow(y, 2)))
_one("square", lambda b, x, y: b.mul(2, x))
_one("sin", lambda b, x, y: b.function("cos", x))
_one("cos", lambda b, x, y: b.neg(b.function("sin", x)))
_one("tan", lambda b, x, y: b.add(1, b.pow(y, 2)))
_one("sinh", lambda b, x, y: b.function("cosh", x))
_one("cosh", lambda b, x, y: b.function("sinh", x))
_one("tanh", lambda b, x, y: b.sub(1, b.pow(y, 2)))
_one("atan arctan", lambda b, x, y: b.div(1, b.add(1, b.pow(x, 2))))
_one("asinh arcsinh", lambda b, x, y: b.function("rsqrt", b.add(b.pow(x, 2), 1)))
_one("asin arcsin", lambda b, x, y: b.function("rsqrt", b.sub(1, b.pow(x, 2))))
_one("acos arccos", lambda b, x, y: b.neg(b.function("rsqrt", b.sub(1, b.pow(x, 2)))))
_one("sigmoid", lambda b, x, y: b.mul(y, b.sub(1, y)))
_one("logsigmoid", lambda b, x, y: b.function("sigmoid", b.neg(x)))
_one(
    "erf",
    lambda b, x, y: b.mul(
        2 / math.sqrt(math.pi), b.function("exp", b.neg(b.pow(x, 2)))
    ),
)
_one(
    "lgamma",
    lambda b, x, y: b.function("digamma", x),
)


@rule("abs absolute", "x")
def _abs(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    word = "sgn" if a.x.is_complex else "sign"
    return [(a.x, b.mul(g, b.method(word, a.x)))]


@rule("relu relu_", "x inplace=False")
def _relu(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.mul(g, b.infix("gt", ">", a.x, 0)))]


@rule("leaky_relu", "x slope=.01 inplace=False")
def _leaky(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    above = b.infix("gt", ">", a.x, 0)
    return [(a.x, b.function("where", above, b.full(g, out), b.mul(a.slope, g)))]


@rule("softplus", "x beta=1 threshold=20")
def _softplus(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.mul(g, b.function("sigmoid", b.mul(a.beta, a.x))))]


@rule("silu", "x inplace=False")
def _silu(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    s = b.function("sigmoid", a.x)
    return [(a.x, b.mul(g, s, b.add(1, b.mul(a.x, b.sub(1, s)))))]


@rule("clamp clip", "x min=None max=None")
def _clamp(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if any(isinstance(m, E) and m.is_tensor for m in (a.min, a.max)):
        raise TypeError
    inside = []
    if a.min is not None:
        inside.append(b.infix("ge", ">=", a.x, a.min))
    if a.max is not None:
        inside.append(b.infix("le", "<=", a.x, a.max))
    both = inside[0] if len(inside) == 1 else b.infix("and", "&", *inside)
    return [(a.x, b.mul(g, both))]


@rule("clone contiguous conj_physical requires_grad_ alias", "x memory_format=None")
def _same(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, g)]


@rule("conj", "x")
def _conj(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.conj(g))]


@rule("real", "x")
def _real(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, g)]


@rule("to type type_as float double half bfloat16", "x dtype=None")
def _cast(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.to(g, a.x))]


# Two arguments.


def _two(b: Chain, out: E, *pairs: tuple[Any, Any]) -> Pairs:
    return [(x, b.fit(g, x, out)) for x, g in pairs if isinstance(x, E) and x.is_tensor]


@rule("add", "x y alpha=1")
def _add(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _two(b, out, (a.x, g), (a.y, b.mul(g, a.alpha)))


@rule("sub subtract", "x y alpha=1")
def _sub(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _two(b, out, (a.x, g), (a.y, b.neg(b.mul(g, a.alpha))))


@rule("mul multiply", "x y")
def _mul(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _two(b, out, (a.x, b.chain(g, a.y)), (a.y, b.chain(g, a.x)))


@rule("div divide true_divide", "x y")
def _div(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    over = b.div(g, b.conj(a.y))
    other = b.neg(b.mul(over, b.conj(out))) if isinstance(a.y, E) else None
    return _two(b, out, (a.x, over), (a.y, other))


@rule("pow", "x n")
def _pow(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    pairs = []
    if isinstance(a.x, E) and a.x.is_tensor:
        if not isinstance(a.n, E):
            less = a.n - 1
            slope = b.mul(a.n, b.pow(a.x, int(less) if less == int(less) else less))
        else:
            slope = b.mul(a.n, b.pow(a.x, b.sub(a.n, 1)))
        pairs.append((a.x, b.chain(g, slope)))
    if isinstance(a.n, E) and a.n.is_tensor:
        base = math.log(a.x) if is_number(a.x) else b.function("log", a.x)
        pairs.append((a.n, b.chain(g, b.mul(out, base))))
    return _two(b, out, *pairs)


@rule("logaddexp", "x y")
def _logaddexp(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    apart = a.x if is_zero(a.y) else b.sub(a.x, a.y)
    first = b.function("sigmoid", apart)
    second = b.function("sigmoid", b.neg(apart))
    return _two(b, out, (a.x, b.mul(g, first)), (a.y, b.mul(g, second)))


@rule("maximum fmax max_of_two", "x y")
def _maximum(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _two(
        b, out,
        (a.x, b.mul(g, b.infix("ge", ">=", a.x, 0 if is_zero(a.y) else a.y))),
        (a.y, b.mul(g, b.infix("lt", "<", a.x, a.y))),
    )  # fmt: skip


@rule("minimum fmin min_of_two", "x y")
def _minimum(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _two(
        b, out,
        (a.x, b.mul(g, b.infix("le", "<=", a.x, 0 if is_zero(a.y) else a.y))),
        (a.y, b.mul(g, b.infix("gt", ">", a.x, a.y))),
    )  # fmt: skip


@rule("hypot", "x y")
def _hypot(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    over = b.div(g, out)
    return _two(b, out, (a.x, b.mul(over, a.x)), (a.y, b.mul(over, a.y)))


@rule("atan2 arctan2", "y x")
def _atan2(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    over = b.div(g, b.add(b.pow(a.x, 2), b.pow(a.y, 2)))
    return _two(b, out, (a.y, b.mul(over, a.x)), (a.x, b.neg(b.mul(over, a.y))))


@rule("where", "mask x y")
def _where(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    g = b.full(g, out)
    return _two(
        b, out,
        (a.x, b.function("where", a.mask, g, 0)),
        (a.y, b.function("where", a.mask, 0, g)),
    )  # fmt: skip


@rule("masked_fill", "x mask value")
def _masked_fill(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    g = b.full(g, out)
    return _two(
        b, out,
        (a.x, b.method("masked_fill", g, a.mask, 0)),
        (a.value, b.function("where", a.mask, g, 0)),
    )  # fmt: skip


@rule("lerp", "x y w")
def _lerp(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _two(
        b, out,
        (a.x, b.mul(g, b.sub(1, a.w))), (a.y, b.mul(g, a.w)),
        (a.w, b.mul(g, b.sub(a.y, a.x))),
    )  # fmt: skip


@rule("addcmul", "x y z value=1")
def _addcmul(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    part = b.mul(a.value, g)
    return _two(b, out, (a.x, g), (a.y, b.mul(part, a.z)), (a.z, b.mul(part, a.y)))


# Reductions.


@rule("sum", "x dim=None keepdim=False dtype=None")
def _sum(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.back(g, a.dim, a.keepdim, len(a.x.shape)))]


@rule("mean", "x dim=None keepdim=False dtype=None")
def _mean(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    back = b.back(g, a.dim, a.keepdim, len(a.x.shape))
    return [(a.x, b.div(back, b.count(a.x, a.dim)))]


@rule("logsumexp", "x dim keepdim=False")
def _logsumexp(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    rank = len(a.x.shape)
    if isinstance(a.dim, int):
        share = b.function("softmax", a.x, a.dim)
    else:
        share = b.function("exp", b.sub(a.x, b.back(out, a.dim, a.keepdim, rank)))
    return [(a.x, b.mul(b.back(g, a.dim, a.keepdim, rank), share))]


@rule("var", "x dim=None correction=1 keepdim=False unbiased=None")
def _var(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    unbiased, dim = a.unbiased, a.dim
    correction = a.correction
    if isinstance(correction, bool):
        unbiased, correction = correction, 1
    if isinstance(dim, bool):
        unbiased, dim = dim, None
    if unbiased is not None:
        correction = int(unbiased)
    args = () if dim is None else (dim,)
    mean = b.method("mean", a.x, *args, **({} if dim is None else {"keepdim": True}))
    back = b.back(g, dim, a.keepdim, len(a.x.shape))
    count = b.count(a.x, dim)
    less = count if not correction else b.sub(count, correction)
    return [(a.x, b.div(b.mul(2, back, b.sub(a.x, mean)), less))]


@rule("vector_norm", "x ord=2 dim=None keepdim=False dtype=None")
def _vector_norm(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _normed(b, g, out, a, a.ord)


@rule("norm", "x p=2 dim=None keepdim=False dtype=None")
def _norm(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _normed(b, g, out, a, 2 if a.p in (None, "fro") else a.p)


def _normed(b: Chain, g: Any, out: E, a: Any, order: Any) -> Pairs:
    rank = len(a.x.shape)
    back = b.back(g, a.dim, a.keepdim, rank)
    if order == 1:
        return [(a.x, b.mul(back, b.method("sgn", a.x)))]
    if order != 2:
        raise TypeError
    return [(a.x, b.mul(b.div(back, b.back(out, a.dim, a.keepdim, rank)), a.x))]


@rule("softmax", "x dim=None dtype=None _stacklevel=1")
def _softmax(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if not isinstance(a.dim, int):
        raise TypeError
    along = b.sum(b.mul(b.full(g, out), out), a.dim, keepdim=True)
    return [(a.x, b.to(b.mul(out, b.sub(b.full(g, out), along)), a.x))]


@rule("log_softmax", "x dim=None dtype=None _stacklevel=1")
def _log_softmax(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if not isinstance(a.dim, int):
        raise TypeError
    g = b.full(g, out)
    share = b.function("exp", out)
    return [
        (a.x, b.to(b.sub(g, b.mul(share, b.sum(g, a.dim, keepdim=True))), a.x))
    ]  # fmt: skip


@rule("cumsum", "x dim")
def _cumsum(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    flipped = b.method("flip", b.full(g, out), a.dim)
    return [(a.x, b.method("flip", b.method("cumsum", flipped, a.dim), a.dim))]


@rule("amax amin", "x dim=None keepdim=False")
def _amax(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    rank = len(a.x.shape)
    dim = None if a.dim == () else a.dim
    won = b.infix("eq", "==", a.x, b.back(out, dim, a.keepdim, rank))
    args, named = ((), {}) if dim is None else ((dim,), {"keepdim": True})
    ties = b.method("sum", won, *args, **named)
    return [(a.x, b.div(b.mul(b.back(g, dim, a.keepdim, rank), won), ties))]


@rule("top_of_all", "x")
def _top(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    won = b.infix("eq", "==", a.x, out)
    return [(a.x, b.div(b.mul(g, won), b.method("sum", won)))]


@rule("mse_loss", "x y size_average=None reduce=None reduction=mean")
def _mse(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    apart = b.mul(2, g, b.sub(a.x, a.y))
    if a.reduction == "mean":
        apart = b.div(apart, b.method("numel", a.x, meta=a.x.meta.numel()))
    if not isinstance(a.y, E) or a.y.shape != a.x.shape:
        raise TypeError
    return [(a.x, apart), (a.y, b.neg(apart))]


@rule("gelu", "x approximate=none")
def _gelu(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if a.approximate != "none":
        raise TypeError
    below = b.mul(0.5, b.add(1, b.function("erf", b.mul(a.x, 0.5**0.5))))
    density = b.mul(
        1 / math.sqrt(2 * math.pi), b.function("exp", b.mul(-0.5, b.pow(a.x, 2)))
    )
    return [(a.x, b.mul(g, b.add(below, b.mul(a.x, density))))]


@rule("cross_entropy", "x target reduction=mean")
def _cross_entropy(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if len(a.x.shape) != 2 or len(a.target.shape) != 1 or a.reduction == "none":
        raise TypeError
    hot = b.op(
        "one_hot", Spelling("function", "torch.nn.functional.one_hot"),
        (a.target, b.extent(a.x, -1)),
        meta=torch.empty(a.x.shape, dtype=torch.int64, device="meta"),
    )  # fmt: skip
    apart = b.mul(g, b.sub(b.function("softmax", a.x, -1), hot))
    return [(a.x, b.div(apart, b.extent(a.x, 0)) if a.reduction == "mean" else apart)]
