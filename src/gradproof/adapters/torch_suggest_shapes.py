"""The table of rules: shapes, indices and linear algebra."""

from __future__ import annotations

from typing import Any

import torch

from gradproof.adapters.torch_suggest_expr import E
from gradproof.adapters.torch_suggest_vjp import Chain, Pairs, differentiable, rule


@rule(
    "reshape view flatten unflatten squeeze ravel",
    "x *shape start_dim=None end_dim=None dim=None",
)
def _reshape(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    g = b.full(g, out)
    meta = torch.empty(a.x.shape, dtype=g.meta.dtype, device="meta")
    return [(a.x, b.method("reshape", g, b.shape(a.x), meta=meta))]


@rule("unsqueeze", "x dim")
def _unsqueeze(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.method("squeeze", b.full(g, out), a.dim))]


@rule("expand broadcast_to", "x *shape")
def _expand(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.fit(g, a.x, out))]


@rule("expand_as", "x other")
def _expand_as(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.fit(g, a.x, out))]


def flipped(b: Chain, x: E) -> Any:
    """The last two axes exchanged; (xᵀ)ᵀ is x."""
    if x.op in ("mT", "t", "T") and len(x.shape) == 2:
        return x.args[0]
    if x.op == "mT":
        return x.args[0]
    if x.op == "transpose" and _last_two(x.args[1:], len(x.shape)):
        return x.args[0]
    if x.op == "matmul" and min(len(a.shape) for a in x.args) > 1:
        return b.infix("matmul", "@", flipped(b, x.args[1]), flipped(b, x.args[0]))
    return b.attr("mT", x)


def _last_two(dims: Any, rank: int) -> bool:
    if len(dims) != 2 or not all(isinstance(d, int) for d in dims):
        return False
    return {d % rank for d in dims} == {rank - 2, rank - 1}


@rule("t mT T", "x")
def _t(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if len(out.shape) < 2:
        return [(a.x, g)]
    if len(out.shape) > 2 and out.op == "T":
        raise TypeError
    return [(a.x, flipped(b, b.full(g, out)))]


@rule("mH H adjoint", "x")
def _h(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.attr("mH", b.full(g, out)))]


@rule("transpose swapaxes swapdims", "x m n")
def _transpose(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if _last_two((a.m, a.n), len(out.shape)):
        return [(a.x, flipped(b, b.full(g, out)))]
    return [(a.x, b.method("transpose", b.full(g, out), a.m, a.n))]


@rule("permute", "x *dims")
def _permute(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    rank = len(a.dims)
    back = sorted(range(rank), key=lambda i: a.dims[i] % rank)
    return [(a.x, b.method("permute", b.full(g, out), *back))]


@rule("flip", "x *dims")
def _flip(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return [(a.x, b.method("flip", b.full(g, out), *a.dims))]


@rule("roll", "x shifts dims=None")
def _roll(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    many = isinstance(a.shifts, (tuple, list))
    back = tuple(b.neg(s) for s in a.shifts) if many else b.neg(a.shifts)
    return [(a.x, b.function("roll", b.full(g, out), back,
                             *(() if a.dims is None else (a.dims,))))]  # fmt: skip


# Products of matrices.


def _adjoint(b: Chain, x: E) -> Any:
    return b.conj(flipped(b, x))


@rule("matmul mm bmm", "x y")
def _matmul(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    x, y = a.x, a.y
    g = b.full(g, out)
    ranks = (len(x.shape), len(y.shape))
    if ranks == (1, 1):
        return [(x, b.mul(g, b.conj(y))), (y, b.mul(g, b.conj(x)))]
    if ranks == (2, 1):
        return [
            (x, b.function("outer", g, b.conj(y))),
            (y, b.infix("matmul", "@", _adjoint(b, x), g)),
        ]
    if min(ranks) < 2:
        raise TypeError
    left = b.infix("matmul", "@", g, _adjoint(b, y))
    if ranks[0] > 2 and ranks[1] == 2:
        rows = b.method("flatten", g, 0, -2)
        right = b.infix(
            "matmul", "@", _adjoint(b, b.method("flatten", x, 0, -2)), rows
        )  # fmt: skip
    else:
        right = b.infix("matmul", "@", _adjoint(b, x), g)
    return [(x, _summed(b, left, x)), (y, _turned(b, _summed(b, right, y), y, g, x))]


def _turned(b: Chain, right: E, y: E, g: E, x: E) -> E:
    """(xᵀ g) for a y that is wᵀ: its own transpose, gᵀ x, is what w wants."""
    if y.op not in ("mT", "t", "T") or len(y.shape) != 2 or y.is_complex:
        return right
    if len(g.shape) > 2:
        g, x = b.method("flatten", g, 0, -2), b.method("flatten", x, 0, -2)
    return b.attr("mT", b.infix("matmul", "@", b.attr("mT", g), x))


def _summed(b: Chain, g: E, x: E) -> E:
    if g.shape == x.shape:
        return g
    meta = g.meta.sum_to_size(x.shape)
    return b.method("sum_to_size", g, b.shape(x), meta=meta)


@rule("mv", "x y")
def _mv(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    return _matmul(b, g, out, a)


@rule("dot vdot inner", "x y")
def _dot(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if len(a.x.shape) != 1 or a.x.is_complex or a.y.is_complex:
        raise TypeError
    return [(a.x, b.mul(g, a.y)), (a.y, b.mul(g, a.x))]


@rule("outer ger", "x y")
def _outer(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    g = b.full(g, out)
    return [
        (a.x, b.infix("matmul", "@", g, b.conj(a.y))),
        (a.y, b.infix("matmul", "@", flipped(b, g), b.conj(a.x))),
    ]


@rule("linear", "x w bias=None")
def _linear(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if len(a.w.shape) != 2 or a.x.is_complex or len(a.x.shape) < 2:
        raise TypeError
    g = b.full(g, out)
    rows, x = g, a.x
    if len(x.shape) > 2:
        rows, x = b.method("flatten", g, 0, -2), b.method("flatten", x, 0, -2)
    pairs = [
        (a.x, b.infix("matmul", "@", g, a.w)),
        (a.w, b.infix("matmul", "@", b.attr("mT", rows), x)),
    ]
    if a.bias is not None:
        pairs.append((a.bias, b.fit(g, a.bias, out)))
    return pairs


@rule("inv inverse", "x")
def _inv(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    back = _adjoint(b, out)
    inner = b.infix("matmul", "@", b.infix("matmul", "@", back, b.full(g, out)), back)
    return [(a.x, b.neg(inner))]


@rule("diagonal", "x offset=0 dim1=0 dim2=1")
def _diagonal(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if a.offset or (a.dim1, a.dim2) not in ((0, 1), (-2, -1)) or len(a.x.shape) != 2:
        raise TypeError
    if a.x.shape[0] != a.x.shape[1]:
        raise TypeError
    return [(a.x, b.function("diag", b.full(g, out)))]


@rule("trace", "x")
def _trace(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    x = a.x
    eye = b.function("eye", b.extent(x, 0), b.extent(x, 1))
    return [(x, b.mul(g, eye))]


# Indices.


@rule("gather", "x dim index sparse_grad=False")
def _gather(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    back = b.method("scatter_add", b.zeros(a.x), a.dim, a.index, b.full(g, out))
    return [(a.x, back)]


@rule("take_along_dim", "x index dim")
def _along(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if a.index.shape != out.shape:
        raise TypeError
    back = b.method("scatter_add", b.zeros(a.x), a.dim, a.index, b.full(g, out))
    return [(a.x, back)]


@rule("index_select", "x dim index")
def _index_select(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    back = b.method("index_add", b.zeros(a.x), a.dim, a.index, b.full(g, out))
    return [(a.x, back)]


@rule("embedding", "index w padding_idx=None max_norm=None")
def _embedding(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if not isinstance(a.w, E) or a.padding_idx is not None:
        raise TypeError
    return _picked(b, g, out, a.w, (a.index,))


@rule("getitem", "x key")
def _getitem(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    keys = a.key if isinstance(a.key, tuple) else (a.key,)
    if any(isinstance(k, (list, E)) and not isinstance(k, int) for k in keys):
        if not all(isinstance(k, E) and k.is_tensor for k in keys):
            raise TypeError
        return _picked(b, g, out, a.x, keys)
    real = [k for k in keys if k is not Ellipsis and k != slice(None)]
    if real and all(k is None for k in real):
        meta = torch.empty(a.x.shape, dtype=g.meta.dtype, device="meta")
        return [(a.x, b.method("reshape", b.full(g, out), b.shape(a.x), meta=meta))]
    if len(real) != 1 or real[0] is None:
        raise TypeError
    at = next(i for i, k in enumerate(keys) if k is real[0])
    dim = at if Ellipsis not in keys[:at] else at - len(keys)
    key = real[0]
    g = b.full(g, out)
    if isinstance(key, slice):
        if key.step not in (None, 1):
            raise TypeError
        back = b.function(
            "slice_scatter", b.zeros(a.x), g, dim, key.start or 0,
            *(() if key.stop is None else (key.stop,)),
        )  # fmt: skip
    else:
        back = b.function("select_scatter", b.zeros(a.x), g, dim, key)
    return [(a.x, back)]


def _picked(b: Chain, g: Any, out: E, x: E, keys: tuple[Any, ...]) -> Pairs:
    back = b.method(
        "index_put", b.zeros(x), keys, b.full(g, out), accumulate=True, meta=x.meta
    )
    return [(x, back)]


@rule("scatter", "x dim index src")
def _scatter(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    g = b.full(g, out)
    pairs = [(a.x, b.method("scatter", g, a.dim, a.index, 0))]
    if differentiable(a.src):
        if a.src.shape != a.index.shape:
            raise TypeError
        pairs.append((a.src, b.method("gather", g, a.dim, a.index)))
    return pairs


@rule("scatter_add", "x dim index src")
def _scatter_add(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    if a.src.shape != a.index.shape:
        raise TypeError
    return [(a.x, g), (a.src, b.method("gather", b.full(g, out), a.dim, a.index))]


@rule("index_add", "x dim index src alpha=1")
def _index_add(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    picked = b.method("index_select", b.full(g, out), a.dim, a.index)
    return [(a.x, g), (a.src, b.mul(a.alpha, picked))]


@rule("tril triu", "x diagonal=0")
def _tril(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    more = (a.diagonal,) if a.diagonal != 0 else ()
    return [(a.x, b.method(out.op, b.full(g, out), *more))]


@rule("cat concat concatenate", "parts dim=0")
def _cat(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    g = b.full(g, out)
    sizes = [b.extent(p, a.dim) for p in a.parts]
    metas = tuple(p.meta for p in a.parts)
    split = b.method("split", g, sizes, a.dim, meta=metas)
    return [(p, b.index(split, i, meta=p.meta)) for i, p in enumerate(a.parts)]


@rule("stack", "parts dim=0")
def _stack(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    g = b.full(g, out)
    return [(p, b.method("select", g, a.dim, i)) for i, p in enumerate(a.parts)]


# Calls with several outputs: g is a list with None where nothing came.


@rule("max min cummax kthvalue median mode topk sort", "x dim=-1 *rest keepdim=False")
def _winner(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    dim, keepdim = a.dim, a.keepdim or (a.rest and a.rest[0])
    if out.op in ("topk", "sort", "kthvalue"):
        dim, keepdim = -1, True
        if (out.op == "sort" and a.dim != -1) or out.op == "kthvalue":
            raise TypeError
    if out.op == "cummax" or g[0] is None:
        raise TypeError
    values, index = (b.index(out, i, meta=out.meta[i]) for i in (0, 1))
    got = b.full(g[0], values)
    if not keepdim:
        got, index = (b.method("unsqueeze", t, dim) for t in (got, index))
    return [(a.x, b.method("scatter", b.zeros(a.x), dim, index, got))]


@rule("split chunk", "x size dim=0")
def _split(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    parts = [
        b.zeros(b.index(out, i, meta=out.meta[i])) if one is None
        else b.full(one, b.index(out, i, meta=out.meta[i]))
        for i, one in enumerate(g)
    ]  # fmt: skip
    return [(a.x, b.function("cat", tuple(parts), *(() if a.dim == 0 else (a.dim,))))]


@rule("unbind", "x dim=0")
def _unbind(b: Chain, g: Any, out: E, a: Any) -> Pairs:
    parts = [
        b.zeros(b.index(out, i, meta=out.meta[i])) if one is None
        else b.full(one, b.index(out, i, meta=out.meta[i]))
        for i, one in enumerate(g)
    ]  # fmt: skip
    return [(a.x, b.function("stack", tuple(parts), *(() if a.dim == 0 else (a.dim,))))]
