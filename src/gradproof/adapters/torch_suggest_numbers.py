"""Numbers of a forward that remember how they were made."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from gradproof.adapters.torch_suggest_expr import E
from gradproof.adapters.torch_suggest_vjp import Chain

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**", "floordiv": "//",
    "mod": "%",
}  # fmt: skip


class _Known:
    """What the two kinds share."""

    e: E
    builder: Chain


class KnownInt(int, _Known):
    """An integer that was an extent or an argument, or was computed from such."""


class KnownFloat(float, _Known):
    """The same, a float."""


def known(builder: Chain, value: Any, e: Any) -> Any:
    """``value`` as a number that knows it is ``e``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    out: Any = KnownInt(value) if isinstance(value, int) else KnownFloat(value)
    out.e, out.builder = e, builder
    return out


def _binary(name: str, sign: str, *, swapped: bool) -> Callable[[Any, Any], Any]:
    compute = getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, bool) or not isinstance(other, (int, float)):
            return NotImplemented
        pair = (
            (_plain(other), _plain(self)) if swapped else (_plain(self), _plain(other))
        )
        parts = (_e(other), _e(self)) if swapped else (_e(self), _e(other))
        value = compute(*pair)
        return known(self.builder, value, self.builder.infix(name, sign, *parts))

    return method


def _plain(a: Any) -> Any:
    return int(a) if isinstance(a, int) else float(a)


def _e(a: Any) -> Any:
    return a.e if isinstance(a, _Known) else a


def _neg(self: Any) -> Any:
    return known(self.builder, -_plain(self), self.builder.mul(-1, self.e))


for _kind in (KnownInt, KnownFloat):
    for _name, _sign in _BINARY.items():
        setattr(_kind, f"__{_name}__", _binary(_name, _sign, swapped=False))
        setattr(_kind, f"__r{_name}__", _binary(_name, _sign, swapped=True))
    setattr(_kind, "__neg__", _neg)  # noqa: B010


def plain(thing: Any) -> Any:
    """``thing`` with ordinary numbers in place of these."""
    if isinstance(thing, _Known):
        return _plain(thing)
    if type(thing) in (tuple, list):
        return type(thing)(plain(a) for a in thing)
    if isinstance(thing, Sequence) and type(thing).__name__ == "Size":
        return tuple(plain(a) for a in thing)
    if isinstance(thing, slice):
        return slice(plain(thing.start), plain(thing.stop), plain(thing.step))
    return thing


def expression(thing: Any) -> Any:
    """The expression behind a number, or the number."""
    return _e(thing)


def explained(
    b: Chain, values: tuple[float, float], extents: list[tuple[E, int, int]]
) -> Any:
    """A number of two runs as an expression of an extent; None where there is none."""
    found = []
    for e, n, m in extents:
        if n == m:
            continue
        for form, of in _FORMS:
            if min(n, m) < 2:
                continue
            scale, other = values[0] / of(n), values[1] / of(m)
            if abs(scale - other) > 1e-12 * abs(scale) or abs(scale) not in _SCALES:
                scale = round(scale * 1e9) / 1e9
                near = abs(scale - other) <= 1e-9 * abs(other) and abs(scale) in _SCALES
                if not near:
                    continue
            found.append(
                b.mul(int(scale) if scale == int(scale) else scale, form(b, e))
            )
    return found[0] if found else None


_SCALES = {0.5, 1.0, 2.0, 3.0, 4.0}
_Form = tuple[Callable[[Chain, E], Any], Callable[[int], float]]
_FORMS: list[_Form] = [
    (lambda b, e: e, lambda n: n),
    (lambda b, e: b.infix("pow", "**", e, -0.5), lambda n: n**-0.5),
    (lambda b, e: b.infix("pow", "**", e, 0.5), lambda n: n**0.5),
    (lambda b, e: b.div(1, e), lambda n: 1 / n),
    (lambda b, e: b.sub(e, 1), lambda n: n - 1),
    (lambda b, e: b.div(1, b.sub(e, 1)), lambda n: 1 / (n - 1)),
]
