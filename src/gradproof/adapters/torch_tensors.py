"""Between flat float64 vectors and PyTorch's tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters.torch_compare import same_bits, words
from gradproof.space import Leaf, Space, Vector

Array = np.ndarray[Any, Any]

_PRECISION = {
    torch.float64: ("float64", False),
    torch.float32: ("float32", False),
    torch.float16: ("float16", False),
    torch.bfloat16: ("bfloat16", False),
    torch.complex128: ("float64", True),
    torch.complex64: ("float32", True),
    torch.complex32: ("float16", True),
}
DTYPE = {name: dtype for dtype, name in _PRECISION.items()}
REAL = {
    name: dtype for dtype, (name, is_complex) in _PRECISION.items() if not is_complex
}


def is_tensor(thing: Any) -> bool:
    """Whether ``thing`` is a tensor."""
    return isinstance(thing, Tensor)


def can_vary(thing: Any) -> bool:
    """Whether ``thing`` is a tensor of real or complex numbers that we can hold."""
    return isinstance(thing, Tensor) and thing.dtype in _PRECISION


def overlaps(t: Tensor) -> bool:
    """Whether two elements of ``t`` may share memory (expanded, unfolded)."""
    if t.layout is not torch.strided:
        return False
    reach = 1
    for stride, extent in sorted(zip(t.stride(), t.shape, strict=True)):
        if extent < 2:
            continue
        if stride < reach:
            return True
        reach = stride * (extent - 1) + reach
    return False


@dataclass(frozen=True)
class Spec:
    """How a leaf's tensor is made: all but its numbers.

    ``strides`` is None for packed memory. ``kind`` is the class to be kept, e.g.
    ``Parameter`` for a module's own. ``sparse`` holds a sparse tensor whose values
    alone are the leaf.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    strides: tuple[int, ...] | None = None
    parameter: bool = False
    sparse: Tensor | None = None

    @classmethod
    def of(cls, t: Tensor) -> Spec:
        """The specification of ``t``; overlapping memory becomes packed."""
        parameter = isinstance(t, torch.nn.Parameter)
        if t.layout is not torch.strided:
            return _sparse_spec(t)
        packed = t.is_contiguous() or overlaps(t)
        strides = None if packed else tuple(t.stride())
        return cls(tuple(t.shape), t.dtype, t.device, strides, parameter)

    @property
    def precision(self) -> str:
        """The precision of its parts."""
        return _PRECISION[self.dtype][0]

    @property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return _PRECISION[self.dtype][1]

    def in_precision(self, precision: str) -> Spec:
        """The same in another precision."""
        dtype = DTYPE[(precision, self.is_complex)]
        sparse = None if self.sparse is None else self.sparse.to(dtype)
        return replace(self, dtype=dtype, sparse=sparse)

    def leaf(
        self, path: str, low: float = -inf, high: float = inf, pattern: str = ""
    ) -> Leaf:
        """The leaf of a space that it stands for."""
        return Leaf(
            path, self.shape, self.precision, self.is_complex,
            low=low, high=high, pattern=pattern,
        )  # fmt: skip

    def tensor(self, view: Array) -> Tensor:
        """A fresh tensor, without grad, that holds the numbers of ``view``."""
        t = torch.from_numpy(np.asarray(view, dtype=np.float64, order="C"))
        if self.is_complex:
            t = torch.view_as_complex(t)
        if self.dtype is t.dtype and self.device.type == "cpu":
            t = t.clone()
        else:
            t = t.to(device=self.device, dtype=self.dtype)
        if self.strides is not None:
            room = torch.empty_strided(
                self.shape, self.strides, dtype=self.dtype, device=self.device
            )
            t = room.copy_(t)
        return t


def _sparse_spec(t: Tensor) -> Spec:
    still = t.detach()
    if still.layout is torch.sparse_coo:
        still = still.coalesce()
    values = _values(still)
    return Spec(tuple(values.shape), t.dtype, t.device, sparse=still)


def _values(t: Tensor) -> Tensor:
    values: Tensor = t.values()
    return values


def dressed(spec: Spec, values: Tensor) -> Tensor:
    """``values`` as the tensor that the user's code expects (sparse where it was)."""
    if spec.sparse is None:
        return values
    like = spec.sparse
    if like.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(
            like.indices(), values, like.shape,
            is_coalesced=True, check_invariants=False,
        )  # fmt: skip
    rows, columns = (
        (like.crow_indices(), like.col_indices())
        if like.layout in (torch.sparse_csr, torch.sparse_bsr)
        else (like.ccol_indices(), like.row_indices())
    )
    return torch.sparse_compressed_tensor(
        rows, columns, values, like.shape,
        layout=like.layout, check_invariants=False,
    )  # fmt: skip


def dense(t: Tensor) -> Tensor:
    """``t`` as a strided tensor with memory: autograd's own zeros have none."""
    if t.layout is torch.strided:
        return t.clone() if t._is_zerotensor() else t
    return t.to_dense()


def write(out: Array, t: Tensor) -> None:
    """Put the numbers of ``t`` into ``out``, a view of its leaf on a flat vector."""
    t = dense(t.detach())
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj())
    if t.is_neg():
        t = t.resolve_neg()
    if t.dtype is not torch.float64 or t.device.type != "cpu":
        t = t.to(device="cpu", dtype=torch.float64)
    out[...] = t.numpy()


def to_vector(space: Space, tensors: list[Tensor | None]) -> Vector:
    """The flat vector of ``tensors``; None counts as zeros."""
    out = np.zeros(space.size)
    for leaf, t in zip(space, tensors, strict=True):
        if t is not None:
            write(space.view(out, leaf), t)
    return out


def to_tensors(space: Space, specs: tuple[Spec, ...], v: Vector) -> list[Tensor]:
    """Fresh tensors with the numbers of ``v``, one for each leaf."""
    return [
        spec.tensor(space.view(v, leaf))
        for leaf, spec in zip(space, specs, strict=True)
    ]


def bits(t: Tensor) -> Tensor:
    """A copy of everything ``t`` holds, as integers: NaN equal to itself."""
    return words(_packed(t)).clone()


def changed(before: Tensor, t: Tensor) -> str:
    """How ``t`` differs from the bits it had, as "3 of 12 entries changed", or ""."""
    now = words(_packed(t))
    if same_bits(before, now):
        return ""
    n = t.numel()
    differs = (before != now).reshape(n, -1).any(dim=1)
    return f"{int(differs.sum())} of {n} entries changed"


def alike(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits."""
    return same_bits(_packed(a), _packed(b))


def _packed(t: Tensor) -> Tensor:
    """``t`` on one axis, a view where that is possible."""
    return dense(t.detach()).resolve_conj().resolve_neg().contiguous().reshape(-1)
