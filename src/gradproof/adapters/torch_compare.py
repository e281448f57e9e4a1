"""Two large tensors held against each other, piece by piece and without copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Elements of a piece: few enough for the cache, enough for a call to be worth it.
_PIECE = 1 << 17
_SIDE = 1 << 8
_FEW = 1 << 12  # elements that tell whether the others are worth looking at

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def words(t: Tensor) -> Tensor:
    """The bits of ``t`` as integers of its width, so that NaN equals itself (no copy)."""
    if t.is_complex():
        t = torch.view_as_real(t)
    return t.view(_WORDS[t.element_size()])


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits."""
    if a.numel() < _PIECE:
        return torch.equal(words(a), words(b))
    if a.device.type == "cpu" and a.is_contiguous() and b.is_contiguous():
        return np.array_equal(_quick(a), _quick(b))
    return all(
        not bool(low) and not bool(high)
        for low, high in _reduced(torch.bitwise_xor, words(a), words(b))
    )


def twins(a: Tensor, b: Tensor) -> bool:
    """Whether two packed tensors hold the same bits; False where that is costly to say.

    Most answers to one question are the same to the bit, which takes half as long to see
    as how far they are apart.
    """
    if a.dtype is not b.dtype or not (a.is_contiguous() and b.is_contiguous()):
        return False
    few = min(a.numel(), _FEW)
    first = same_bits(a.reshape(-1)[:few], b.reshape(-1)[:few])
    return first and (few == a.numel() or same_bits(a, b))


def _quick(t: Tensor) -> np.ndarray[Any, Any]:
    """The bits of packed memory in the widest words that divide it."""
    out: np.ndarray[Any, Any] = words(t).reshape(-1).numpy()
    return out.view(np.int64) if out.nbytes % 8 == 0 else out


def all_are(t: Tensor, number: Tensor) -> bool:
    """Whether every entry of ``t`` has the bits of ``number``, which has one."""
    if not t.numel():
        return True
    (low, high), word = torch.aminmax(words(t)), words(number)
    return bool((low == word).all()) and bool((high == word).all())


def furthest(a: Tensor, b: Tensor, times: float = 1.0) -> float:
    """The largest |a - times·b| of two real tensors of one shape; inf where one is NaN."""
    far = 0.0
    for low, high in _reduced(partial(torch.sub, alpha=times), a, b):
        here = max(float(high), -float(low))
        far = here if here >= far else far if here == here else inf
    return far


def largest(t: Tensor) -> float:
    """The largest |t| of real numbers; inf where there is a NaN."""
    if not t.numel():
        return 0.0
    low, high = torch.aminmax(t)
    here = max(float(high), -float(low))
    return here if here == here else inf


def _reduced(
    operation: Callable[..., Tensor], a: Tensor, b: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """The least and the largest entry of ``operation(a, b)``, for each piece."""
    if not a.numel():
        return
    if a.is_contiguous() and b.is_contiguous():
        a, b = a.reshape(-1), b.reshape(-1)
    most = _tile(a, b)
    room = torch.empty(prod(most), dtype=a.dtype, device=a.device)
    for start in product(*(range(0, n, k) for n, k in zip(a.shape, most, strict=True))):
        at = tuple(slice(s, s + k) for s, k in zip(start, most, strict=True))
        p, q = a[at], b[at]
        out = room[: p.numel()].view(p.shape)
        operation(p, q, out=out)
        yield torch.aminmax(out)


def _tile(a: Tensor, b: Tensor) -> list[int]:
    """The extents of a piece: long along the axes that are packed in ``a`` or in ``b``.

    A square of both where these differ: whole rows of the one would be columns of the
    other, of which each number is a line of the cache.
    """
    packed = dict.fromkeys(_packed(t) for t in (a, b) if t.ndim)
    out, left = [1] * a.ndim, _PIECE
    side = _PIECE if len(packed) < 2 else _SIDE
    others = [i for i in reversed(range(a.ndim)) if i not in packed]
    for i in (*packed, *others):
        most = side if i in packed else left
        out[i] = max(1, min(a.shape[i], most, left))
        left //= out[i]
    return out


def _packed(t: Tensor) -> int:
    """The axis along which the elements of ``t`` lie the closest."""
    return min(range(t.ndim), key=lambda i: (t.shape[i] < 2, t.stride(i)))
