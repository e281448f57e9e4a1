"""The same program, with what it rounds on the way rounded the other way at random.

Stochastic rounding (Croci et al., "Stochastic rounding: implementation, error analysis and
applications", R. Soc. Open Sci. 9 (2022)): the mean of what an operation gives is its
exact result, so that stairs of rounding become noise about the function they stand for,
and how far a result moves says how many of its digits are rounding. Every operation is
carried out once more in float64 to see what it rounded; what is exact stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

BITS = {
    torch.float64: 53,
    torch.float32: 24,
    torch.float16: 11,
    torch.bfloat16: 8,
}  # of a significand
REAL = {
    torch.complex128: torch.float64,
    torch.complex64: torch.float32,
    torch.complex32: torch.float16,
}
WIDE = dict.fromkeys(BITS, torch.float64) | dict.fromkeys(REAL, torch.complex128)
EXACT = (
    "empty",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "one_hot",
)  # or not computed


class Rounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Each result of one of ``dtypes`` becomes one of the numbers next to the exact one.

    Results of a narrower dtype stay: what a program rounds to less than it was given is
    its own doing.
    """

    def __init__(
        self, seed: int, dtypes: frozenset[torch.dtype], *, fair: bool
    ) -> None:
        """Draw from a generator of its own.

        ``fair``: either number is as likely; else the mean is the exact result.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.fair = fair
        self.draws = torch.Generator().manual_seed(seed)
        self.dtypes = dtypes

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep the compiler out: to shield it PyTorch would load it, which takes seconds."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call ``func``, and move what it rounded."""
        kwargs = kwargs or {}
        if not (_computes(func) and _numbers(args)):
            return func(*args, **kwargs)
        if torch.float64 in self.dtypes:  # there is nothing wider: all may be rounded
            given = _values((args, tuple(kwargs.values())))
            out = func(*args, **kwargs)
            for got in _each(out):
                self._shift(got, given)
            return out
        wide, more = _widened(args), {k: _widened(v) for k, v in kwargs.items()}
        out = func(*args, **kwargs)
        try:
            exact = func(*wide, **more)
        except Exception:  # whatever a kernel says that has no float64
            return out
        for got, truth in zip(_each(out), _each(exact), strict=False):
            self._move(got, truth)
        return out

    def _ours(self, t: Tensor) -> Tensor | None:
        t = torch.view_as_real(t) if t.dtype in REAL else t
        return t if t.dtype in self.dtypes and t.numel() else None

    def _draw(self, like: Tensor) -> Tensor:
        coin = torch.rand(like.shape, generator=self.draws, dtype=torch.float64)
        return coin.to(like.device)

    def _shift(self, got: Tensor, given: Tensor) -> None:
        """Move what may be rounded: no whole number, and none that was given."""
        part = self._ours(got)
        if part is None:
            return
        copied = torch.isin(part.abs().double(), given) | (part == part.round())
        steps = (torch.floor(3 * self._draw(part)) - 1) * ~copied
        part.add_((steps * _spacing(part.double(), part.dtype)).to(part.dtype))

    def _move(self, got: Tensor, exact: Tensor) -> None:
        part = self._ours(got)
        exact = torch.view_as_real(exact) if exact.is_complex() else exact
        if part is None or part.shape != exact.shape:
            return
        near, exact, largest = (
            part.double(),
            exact.double(),
            torch.finfo(part.dtype).max,
        )
        gap = exact - near
        room = torch.maximum(2 * gap.abs(), _spacing(exact, part.dtype))
        if self.fair:
            other = near + room * gap.sign()
            other = torch.where(self._draw(part) < 0.5, near, other)
        else:  # two uniform numbers: then the noise is the same wherever ``exact`` lies
            other = exact + room * (self._draw(part) + self._draw(part) - 1)
        if gap.isinf().any():
            high = torch.where(self._draw(part) < 0.5, near, near.sign() * largest)
            other = torch.where(gap.isinf(), high, other)
        part.copy_(torch.where((gap != 0) & exact.isfinite(), other, near))


def _each(out: Any) -> list[Tensor]:
    parts = out if isinstance(out, (list, tuple)) else [out]
    return [t for t in parts if isinstance(t, Tensor)]


def _values(args: Any) -> Tensor:
    """The sizes of all real numbers among ``args``, and of their parts."""
    some = [torch.zeros(0, dtype=torch.float64)]
    for a in args:
        if isinstance(a, (list, tuple)):
            some.append(_values(a))
        elif isinstance(a, Tensor) and (a.is_floating_point() or a.is_complex()):
            parts = torch.view_as_real(a.resolve_conj()) if a.is_complex() else a
            some.append(parts.detach().abs().double().reshape(-1))
    return torch.cat([t.to(some[-1].device) for t in some])


def _spacing(v: Tensor, dtype: torch.dtype) -> Tensor:
    """The distance of the numbers of ``dtype`` at ``v``, in float64."""
    one, least = torch.ones_like(v), torch.finfo(dtype).smallest_normal
    exponent = torch.frexp(v.abs().clamp(min=least))[1]
    return torch.ldexp(one, exponent - BITS[dtype])


@lru_cache(maxsize=1024)
def _computes(func: Any) -> bool:
    """Whether ``func`` makes new numbers, and neither draws nor counts."""
    if torch.Tag.nondeterministic_seeded in func.tags:
        return False
    if any(word in func.__name__ for word in EXACT):
        return False
    returned = [r.alias_info for r in func._schema.returns]
    return bool(returned) and all(a is None or a.is_write for a in returned)


def _numbers(args: Iterable[Any]) -> bool:
    """Whether some argument holds real or complex numbers."""
    return any(
        _numbers(a)
        if isinstance(a, (list, tuple))
        else isinstance(a, Tensor) and (a.is_floating_point() or a.is_complex())
        for a in args
    )


def _widened(thing: Any) -> Any:
    if isinstance(thing, (list, tuple)):
        return type(thing)([_widened(t) for t in thing])
    if isinstance(thing, Tensor):
        wide = WIDE.get(thing.dtype, thing.dtype)
        return thing.detach().to(wide, copy=True)
    if isinstance(thing, torch.dtype):
        return WIDE.get(thing, thing)
    return thing
