"""Expressions of a suggested backward: shared, simplified, and knowing their shapes.

Equal expressions are one object, so that what is computed twice is seen. What the forward
computed is kept as its author wrote it; products and sums made here are flattened, their
like terms collected and their common factors taken out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch
from torch import Tensor

NAME, MUL, ADD, OP, SHAPE, SIZE = "name", "mul", "add", "op", "shape", "size"


class CannotSay(Exception):
    """Why there is no backward to suggest, in one sentence without its full stop."""


@dataclass(frozen=True, eq=False)
class Spelling:
    """How a call is written: what kind of call, and the word or sign.

    Kinds are "infix", "prefix", "method", "function", "attr", "index" and "pull": the vjp
    of a call for which there is no rule here.
    """

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class E:
    """One expression. ``meta``: a tensor on the meta device, a number, or a tuple."""

    head: str
    args: tuple[Any, ...]
    meta: Any
    op: str = ""
    spelling: Spelling | None = None
    kwargs: tuple[tuple[str, Any], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its value; () for a number."""
        return tuple(self.meta.shape) if isinstance(self.meta, Tensor) else ()

    @property
    def is_tensor(self) -> bool:
        """Whether its value is a tensor."""
        return isinstance(self.meta, Tensor)

    @property
    def is_complex(self) -> bool:
        """Whether its value is complex."""
        if isinstance(self.meta, Tensor):
            return self.meta.is_complex()
        return isinstance(self.meta, complex)

    @property
    def keyword(self) -> dict[str, Any]:
        """The keyword arguments."""
        return dict(self.kwargs)


def is_number(thing: Any) -> TypeGuard[int | float]:
    """Whether ``thing`` is a plain number."""
    return isinstance(thing, (int, float)) and not isinstance(thing, bool)


def children(thing: Any) -> Iterable[E]:
    """The expressions directly inside ``thing``, which may be nested."""
    if isinstance(thing, E):
        if thing.head == MUL:
            yield from (f for f, _ in thing.args[1])
            return
        if thing.head == ADD:
            yield from (t for _, t in thing.args if isinstance(t, E))
            return
        for a in (*thing.args, *(v for _, v in thing.kwargs)):
            yield from _inner(a)


def _inner(a: Any) -> Iterable[E]:
    if isinstance(a, E):
        yield a
    elif isinstance(a, (tuple, list)):
        for item in a:
            yield from _inner(item)
    elif isinstance(a, slice):
        yield from _inner((a.start, a.stop, a.step))


def metas(thing: Any) -> Any:
    """``thing`` with each expression replaced by its meta value."""
    if isinstance(thing, E):
        return thing.meta
    if isinstance(thing, (tuple, list)):
        return type(thing)(metas(a) for a in thing)
    if isinstance(thing, slice):
        return slice(metas(thing.start), metas(thing.stop), metas(thing.step))
    return thing


def like(t: Tensor) -> Tensor:
    """A meta tensor of the shape and dtype of ``t``."""
    return torch.empty(t.shape, dtype=t.dtype, device="meta")


@dataclass(eq=False)
class Builder:
    """Makes expressions; the same one for the same parts."""

    known: dict[Any, E] = field(default_factory=dict)

    def _made(self, e: E) -> E:
        key = (e.head, e.op, e.spelling and (e.spelling.kind, e.spelling.text),
               _key(e.args), _key(e.kwargs))  # fmt: skip
        return self.known.setdefault(key, e)

    def name(self, text: str, meta: Any) -> E:
        """What the backward will find under a name."""
        return self._made(E(NAME, (text,), meta))

    def op(
        self,
        op: str,
        spelling: Spelling,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        meta: Any = None,
    ) -> E:
        """A call as it is written; ``meta`` is found by calling it where it is None."""
        named = tuple((kwargs or {}).items())
        if meta is None:
            meta = _called(spelling, metas(args), {k: metas(v) for k, v in named})
        return self._made(E(OP, args, meta, op, spelling, named))

    def method(self, op: str, *args: Any, meta: Any = None, **kwargs: Any) -> E:
        """``args[0].op(*args[1:])``."""
        return self.op(op, Spelling("method", op), args, kwargs, meta)

    def function(self, op: str, *args: Any, meta: Any = None, **kwargs: Any) -> E:
        """``torch.op(*args)``."""
        return self.op(op, Spelling("function", f"torch.{op}"), args, kwargs, meta)

    def attr(self, op: str, x: E) -> E:
        """``x.op``."""
        return self.op(op, Spelling("attr", op), (x,), meta=getattr(x.meta, op))

    def infix(self, op: str, sign: str, a: Any, b: Any) -> E:
        """``a sign b``."""
        return self.op(op, Spelling("infix", sign), (a, b))

    def index(self, x: E, key: Any, meta: Any = None) -> E:
        """``x[key]``."""
        return self.op("getitem", Spelling("index", ""), (x, key), meta=meta)

    def shape(self, x: E) -> E:
        """``x.shape``."""
        x = as_long(x)
        return self._made(E(SHAPE, (x,), x.shape))

    def extent(self, x: E, dim: int) -> E:
        """``x.shape[dim]``; the last of several is called -1."""
        x = as_long(x)
        rank = len(x.shape)
        dim = dim % rank
        shown = -1 if dim == rank - 1 and rank > 1 else dim
        return self._made(E(SIZE, (x, shown), x.shape[dim]))

    # Algebra.

    def mul(self, *parts: Any) -> Any:
        """The product, flattened, its numbers taken together."""
        coeff: Any = 1
        powers: dict[tuple[E, bool], int] = {}
        for part in parts:
            if not isinstance(part, E):
                coeff *= part
                continue
            inner, factors = part.args if part.head == MUL else (1, ((part, 1),))
            coeff *= inner
            for f, p in factors:
                key = (f, p > 0)
                powers[key] = powers.get(key, 0) + p
        factors = tuple((f, p) for (f, _), p in powers.items())
        return self._product(coeff, factors)

    def _product(self, coeff: Any, factors: tuple[tuple[E, int], ...]) -> Any:
        coeff, factors = self._averaged(coeff, factors)
        if isinstance(coeff, float) and coeff == int(coeff):
            coeff = int(coeff)
        if coeff == 0 or not factors:
            return coeff
        if coeff == 1 and len(factors) == 1 and factors[0][1] == 1:
            return factors[0][0]
        meta = coeff
        for f, p in factors:
            value = f.meta if abs(p) == 1 else f.meta ** abs(p)
            meta = meta * value if p > 0 else meta / value
        return self._made(E(MUL, (coeff, factors), meta))

    def _averaged(
        self, coeff: Any, factors: tuple[tuple[E, int], ...]
    ) -> tuple[Any, tuple[tuple[E, int], ...]]:
        """A sum over an axis by the extent of that axis is a mean."""
        for f, p in factors:
            if f.op != "sum" or p != 1 or len(f.args) != 2 or f.head != OP:
                continue
            inner, dim = f.args
            for size, q in factors:
                if size.head != SIZE or q != -1 or not isinstance(dim, int):
                    continue
                of, at = size.args
                if of.shape == inner.shape and at % len(of.shape) == dim % len(
                    of.shape
                ):
                    mean = self.method("mean", inner, dim, **f.keyword)
                    rest = tuple(
                        (mean, 1) if a is f else (a, b)
                        for a, b in factors
                        if a is not size
                    )
                    return coeff, rest
        return coeff, factors

    def div(self, a: Any, b: Any) -> Any:
        """``a / b``."""
        if not isinstance(b, E):
            number = 1 / b
            exact = (
                is_number(b)
                and number
                and abs(b) < 2**24
                and 2.0 ** round(_log2(abs(b))) == abs(b)
            )
            if exact or not isinstance(a, E):
                return self.mul(a, number)
            return self.mul(a, self._inverse(self.number(b)))
        return self.mul(a, self._inverse(b))

    def _inverse(self, b: E) -> E:
        if b.head == MUL:
            coeff, factors = b.args
            flipped: E = self._product(1, tuple((f, -p) for f, p in factors))
            out: E = flipped if coeff == 1 else self.div(flipped, coeff)
            return out
        return self._made(E(MUL, (1, ((b, -1),)), 1 / b.meta))

    def number(self, value: Any) -> E:
        """A number as an expression."""
        return self._made(E(NAME, (value,), value))

    def neg(self, a: Any) -> Any:
        """``-a``."""
        return self.mul(-1, a)

    def add(self, *parts: Any) -> Any:
        """The sum: like terms collected, common factors taken out."""
        found: dict[Any, list[tuple[Any, Any]]] = {}
        for part in parts:
            for coeff, e in self._terms(part):
                key = frozenset(_unfolded(e)[1].items())
                found.setdefault(key, []).append((coeff, e))
        left = [
            pair for alike in found.values() if (pair := self._alike(alike))[0] != 0
        ]
        if not left:
            return 0
        if len(left) == 1:
            return self.mul(*left[0])
        common = self._common(left)
        rests = [self._without(e, common) for _, e in left] if common else []
        if common and not any(_is_mask(r) for r in rests):
            inside = [(c, self._without(e, common)) for c, e in left]
            signs = {c < 0 for c, _ in inside}
            sign = -1 if signs == {True} else 1
            sizes = {abs(c) for c, _ in inside}
            scale = sizes.pop() if len(sizes) == 1 else 1
            rest = self.add(*(self.mul(c * sign / scale if scale != 1 else c * sign, e)
                              for c, e in inside))  # fmt: skip
            return self.mul(sign * scale, *common, rest)
        left.sort(key=lambda pair: pair[0] < 0)
        meta: Any = 0
        for c, e in left:
            meta = meta + (e.meta * c if isinstance(e, E) else e * c)
        return self._made(E(ADD, tuple(left), meta))

    def _alike(self, terms: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Terms of the same factors as one term."""
        if len({e for _, e in terms}) == 1:
            return sum(c for c, _ in terms), terms[0][1]
        total = 0
        for c, e in terms:
            total = total + c * _unfolded(e)[0]
        return total, self._product(1, tuple(_unfolded(terms[0][1])[1].items()))

    def sub(self, a: Any, b: Any) -> Any:
        """``a - b``."""
        return self.add(a, self.neg(b))

    def _terms(self, part: Any) -> Iterable[tuple[Any, Any]]:
        """(coefficient, expression without one), for each term of a sum."""
        if not isinstance(part, E):
            yield part, 1
        elif part.head == ADD:
            yield from part.args
        elif part.head == MUL and part.args[0] != 1:
            yield part.args[0], self._product(1, part.args[1])
        else:
            yield 1, part

    def _common(self, terms: list[tuple[Any, Any]]) -> list[E]:
        if not all(isinstance(e, E) for _, e in terms):
            return []
        parts = [_factors(e) for _, e in terms]
        out = []
        for f, p in parts[0].items():
            shared = [q.get(f, 0) for q in parts]
            if all(q and (q > 0) == (p > 0) for q in shared):
                least = min(abs(q) for q in shared)
                out.append(self._product(1, ((f, least if p > 0 else -least),)))
        return out

    def _without(self, e: E, common: list[E]) -> Any:
        gone = {}
        for c in common:
            gone.update(_factors(c))
        rest = []
        for f, p in _factors(e).items():
            p -= gone.get(f, 0)
            if p:
                rest.append((f, p))
        return self._product(1, tuple(rest)) if rest else 1


def as_long(x: E) -> E:
    """What ``x`` was computed from entry by entry, if that has its shape."""
    while x.head in (ADD, MUL) or (
        x.head == OP
        and x.spelling is not None
        and (x.spelling.kind in ("infix", "prefix") or x.op in _ENTRYWISE)
        and x.op != "matmul"
    ):
        inside = [c for c in children(x) if c.is_tensor and c.shape == x.shape]
        if not inside:
            break
        x = inside[0]
    return x


_ENTRYWISE = {
    "exp", "log", "sqrt", "rsqrt", "square", "abs", "tanh", "sigmoid", "clone", "relu",
    "softmax", "log_softmax", "masked_fill", "sin", "cos", "clamp", "softplus", "silu",
}  # fmt: skip


def _is_mask(a: Any) -> bool:
    return isinstance(a, E) and a.is_tensor and a.meta.dtype is torch.bool


def _log2(x: float) -> float:
    import math

    return math.log2(x) if x else 0.0


def _unfolded(e: Any) -> tuple[Any, dict[E, int]]:
    """A number and factors, those of the forward's own products too."""
    if not isinstance(e, E):
        return e, {}
    coeff: Any = 1
    out: dict[E, int] = {}
    pairs: Iterable[tuple[Any, int]]
    if e.head == MUL:
        coeff, pairs = e.args
    elif e.head == OP and e.op == "mul" and e.spelling and e.spelling.kind == "infix":
        pairs = [(a, 1) for a in e.args]
    else:
        return 1, {e: 1}
    for f, p in pairs:
        inner, factors = _unfolded(f) if p > 0 else (1, {f: 1})
        coeff = coeff * inner**p
        for g, q in factors.items():
            out[g] = out.get(g, 0) + p * q
    return coeff, out


def _factors(e: E) -> dict[E, int]:
    return dict(e.args[1]) if e.head == MUL else {e: 1}


def _key(a: Any) -> Any:
    if isinstance(a, E):
        return id(a)
    if isinstance(a, (tuple, list)):
        return (type(a).__name__, *(_key(item) for item in a))
    if isinstance(a, slice):
        return ("slice", _key((a.start, a.stop, a.step)))
    return (type(a).__name__, repr(a))


_SIGNS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "**": operator.pow, "@": operator.matmul, ">": operator.gt, ">=": operator.ge,
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    "&": operator.and_, "|": operator.or_, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
_PREFIX: dict[str, Callable[..., Any]] = {"-": operator.neg, "~": operator.invert}


def _called(spelling: Spelling, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call gives on the meta device."""
    kind, text = spelling.kind, spelling.text
    if kind == "infix":
        return _SIGNS[text](*args)
    if kind == "prefix":
        return _PREFIX[text](*args)
    if kind == "index":
        return args[0][args[1]]
    if kind == "method":
        return getattr(args[0], text)(*args[1:], **kwargs)
    thing: Any = torch
    for word in text.split(".")[1:]:
        thing = getattr(thing, word)
    return thing(*args, **kwargs)
