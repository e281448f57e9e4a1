"""The cotangents of each operation, as expressions.

A rule is told the cotangent g of the output, the output and the bound arguments, and
gives (argument, contribution) pairs. A contribution may be of a shape that broadcasts to
the argument's: it is expanded where it is returned. For complex numbers PyTorch's
convention holds: the cotangent is multiplied by the conjugate of the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from gradproof.adapters.torch_suggest_expr import NAME, Builder, E, Spelling, as_long

Pairs = Iterable[tuple[Any, Any]]
Rule = Callable[["Chain", Any, E, Any], Pairs]


@dataclass(frozen=True)
class Entry:
    """A rule, and how its arguments are named."""

    rule: Rule
    names: tuple[tuple[str, Any], ...]
    rest: str

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments by name; TypeError where they do not fit."""
        out = dict(self.names)
        given = list(args)
        for name, _ in self.names:
            if name == self.rest:
                one = len(given) == 1 and isinstance(given[0], (tuple, list))
                out[name] = tuple(given[0]) if one else tuple(given)
                given = []
            elif given:
                out[name] = given.pop(0)
        if given or set(kwargs) - set(out):
            raise TypeError
        out.update(kwargs)
        if any(value is _NEEDED for value in out.values()):
            raise TypeError
        return SimpleNamespace(**out)


_NEEDED = object()
RULES: dict[str, Entry] = {}
ZERO: set[str] = {
    "sign", "sgn", "round", "floor", "ceil", "trunc", "detach", "zeros_like",
    "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full",
    "new_empty", "new_tensor", "one_hot", "argmax", "argmin", "argsort", "eq", "ne",
    "gt", "ge", "lt", "le", "isnan", "isinf", "isfinite", "any", "all", "rand_like",
    "randn_like", "bernoulli", "logical_and", "logical_or", "logical_not", "long", "int",
    "bool", "heaviside", "searchsorted", "bucketize", "bincount", "nonzero",
}  # fmt: skip


def rule(names: str, signature: str) -> Callable[[Rule], Rule]:
    """Register a rule under ``names``; the signature is as in "x dim=None *shape"."""
    parts: list[tuple[str, Any]] = []
    rest = ""
    for word in signature.split():
        name, _, default = word.partition("=")
        if name.startswith("*"):
            rest = name = name[1:]
            parts.append((name, ()))
        else:
            parts.append((name, _DEFAULTS[default] if default else _NEEDED))

    def register(function: Rule) -> Rule:
        for name in names.split():
            RULES[name] = Entry(function, tuple(parts), rest)
        return function

    return register


_DEFAULTS: dict[str, Any] = {
    "None": None, "False": False, "True": True, "1": 1, "0": 0, "2": 2, "20": 20,
    "-1": -1, "none": "none", ".01": 0.01, "constant": "constant", "mean": "mean",
    "1e-05": 1e-5, "-100": -100, "0.0": 0.0,
}  # fmt: skip


class Chain(Builder):
    """A Builder that knows the ways of gradients."""

    def conj(self, a: Any) -> Any:
        """The conjugate, of what is complex."""
        return self.method("conj", a) if isinstance(a, E) and a.is_complex else a

    def chain(self, g: Any, slope: Any) -> Any:
        """G times the conjugate of a derivative."""
        return self.mul(g, self.conj(slope))

    def full(self, g: E, out: E) -> E:
        """``g`` in the whole shape of ``out``."""
        if g.shape == out.shape:
            return g
        meta = torch.empty(out.shape, dtype=g.meta.dtype, device="meta")
        return self.method("expand", g, self.shape(out), meta=meta)

    def fit(self, g: Any, x: E, out: E) -> Any:
        """``g``, a cotangent of the shape of ``out``, summed to the shape of ``x``."""
        if not isinstance(g, E):
            return g
        if g.is_complex and not x.is_complex:
            g = self.attr("real", g)
        if x.shape == out.shape:
            return g
        g = self.full(g, out)
        rank = len(x.shape)
        if not rank:
            return self.sum(g)
        if rank == len(g.shape):
            axes = [i for i in range(rank) if x.shape[i] == 1 != g.shape[i]]
            shown = [i - rank if i == rank - 1 else i for i in axes]
            return self.sum(
                g, shown[0] if len(shown) == 1 else tuple(shown), keepdim=True
            )
        more = len(g.shape) - rank
        if as_long(x).head != NAME and g.shape[more:] == x.shape:
            return self.sum(g, 0 if more == 1 else tuple(range(more)))
        meta = g.meta.sum_to_size(x.shape)
        return self.method("sum_to_size", g, self.shape(x), meta=meta)

    def sum(self, g: Any, dim: Any = None, *, keepdim: bool = False) -> Any:
        """The sum, with what is the same along it taken out."""
        dims = _dims(dim, len(g.shape))
        inside: list[tuple[E, int]] = []
        outside: list[Any] = []
        if g.head == "mul":
            coeff, factors = g.args
            outside.append(coeff)
            for f, p in factors:
                same = not f.is_tensor or not f.shape
                if keepdim and len(f.shape) == len(g.shape):
                    same = all(f.shape[d] == 1 != g.shape[d] for d in dims)
                if same:
                    outside.append(self._product(1, ((f, p),)) if p == 1
                                   else self._power(f, p))  # fmt: skip
                else:
                    inside.append((f, p))
            core = self._product(1, tuple(inside)) if inside else 1
            if isinstance(core, E) and core.shape == g.shape:
                g = core
            else:
                outside = []
        args = () if dim is None else (dim,)
        named = {"keepdim": True} if keepdim else {}
        return self.mul(*outside, self.method("sum", g, *args, **named))

    def _power(self, f: E, p: int) -> Any:
        out: Any = f
        for _ in range(abs(p) - 1):
            out = self.mul(out, f)
        return out if p > 0 else self._inverse(out)

    def pow(self, x: E, n: Any) -> Any:
        """``x ** n``."""
        if not isinstance(n, E):
            if n == 1:
                return x
            if n == 0:
                return 1
            if isinstance(n, int) and n > 1:
                return self.mul(*[x] * n)
        return self.op("pow", Spelling("infix", "**"), (x, n))

    def back(self, g: E, dim: Any, keepdim: Any, rank: int) -> E:
        """The cotangent of a reduction with its axes put back."""
        if keepdim or dim is None:
            return g
        for d in sorted(_dims(dim, rank)):
            g = self.method("unsqueeze", g, -1 if d == rank - 1 else d)
        return g

    def count(self, x: E, dim: Any) -> Any:
        """How many entries a reduction takes together."""
        if dim is None:
            dim = 0 if len(x.shape) == 1 else None
        if dim is None:
            return self.method("numel", x, meta=x.meta.numel())
        return self.mul(*(self.extent(x, d) for d in _dims(dim, len(x.shape))))

    def zeros(self, x: E) -> E:
        """Zeros of the shape of ``x``."""
        return self.function("zeros_like", x)

    def to(self, g: E, x: E) -> E:
        """``g`` in the dtype of ``x``."""
        if g.meta.dtype == x.meta.dtype:
            return g
        dtype = self.op("dtype", Spelling("attr", "dtype"), (x,), meta=x.meta.dtype)
        return self.method("to", g, dtype)


def _dims(dim: Any, rank: int) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(rank))
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    return tuple(d % rank if rank else 0 for d in dims) or tuple(range(rank))


def same_vjp(b: Chain, g: E, out: E) -> Pairs:
    """Every rule's fallback: ``torch.func.vjp`` of the call itself."""
    given = (*out.args, *(v for _, v in out.kwargs))
    args = [a for a in given if differentiable(a)]
    if any(isinstance(a, (tuple, list)) and any(map(differentiable, a))
           for a in given):  # fmt: skip
        raise TypeError
    spelling = Spelling("pull", out.op)
    metas = tuple(a.meta for a in args)
    pulled = b.op("pull", spelling, (out, b.full(g, out), *args), meta=metas)
    return [
        (a, b.index(pulled, i, meta=a.meta)) for i, a in enumerate(args)
    ]  # fmt: skip


def differentiable(a: Any) -> bool:
    """Whether an argument may carry a gradient."""
    return (
        isinstance(a, E)
        and a.is_tensor
        and (a.meta.is_floating_point() or a.meta.is_complex())
    )


def is_zero(a: Any) -> bool:
    """Whether an argument is 0 everywhere, as it is written."""
    if isinstance(a, E):
        return a.op in ("zeros_like", "zeros", "new_zeros")
    return not isinstance(a, (tuple, list, str)) and a is not None and a == 0
