"""Tensors of every layout, seen as flat vectors: positions, directions, handles.

A strided tensor has one entry per element. A sparse one has entries only where values
are stored; ``positions`` says which element of the flat dense vector each of them is.
All that the drop-ins know of layouts stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from torch import overrides

COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
BLOCKED = (torch.sparse_bsr, torch.sparse_bsc)
# Not declared in torch's type stubs.
MKLDNN: torch.layout = torch._mkldnn  # type: ignore[attr-defined]


def is_tensor_like(value: Any) -> bool:
    """Whether this is a tensor, or an object that stands for one."""
    return bool(overrides.is_tensor_like(value))  # type: ignore[no-untyped-call]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """What a function took or returned, as a tuple."""
    if isinstance(value, tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def wants_grad(value: Any) -> bool:
    """Whether an input is one of those to differentiate with respect to."""
    return is_tensor_like(value) and bool(value.requires_grad)


def is_float(value: Any) -> bool:
    """Whether an output has derivatives at all: a float or complex tensor."""
    return is_tensor_like(value) and (
        value.is_floating_point() or bool(value.is_complex())
    )


def is_compressed(tensor: Any) -> bool:
    """Whether the layout is csr, csc, bsr or bsc."""
    return tensor.layout in COMPRESSED


def is_sparse(tensor: Any) -> bool:
    """Whether the layout is one of the five sparse ones."""
    return tensor.layout is torch.sparse_coo or is_compressed(tensor)


def is_plain(value: Any) -> bool:
    """Whether this is an ordinary strided tensor, no subclass and no tensor-like."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and (
        value.layout is torch.strided
    )


def stored(tensor: Any) -> Any:
    """The tensor that holds the stored values, sharing their memory."""
    if tensor.layout is torch.sparse_coo:
        return tensor._values()
    return tensor.values() if is_compressed(tensor) else tensor


def dense(tensor: Any) -> Any:
    """The same values, strided."""
    return tensor.to_dense() if tensor.layout != torch.strided else tensor


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the real part."""
    return dtype.to_real() if dtype.is_complex else dtype


def positions(tensor: Any) -> torch.Tensor:
    """For each stored value of a sparse tensor: its index in the flat dense vector.

    Shape (number of stored values,), in the order of ``stored(tensor).reshape(-1)``.
    """
    size = tuple(tensor.shape)
    if tensor.layout is torch.sparse_coo:
        grid = torch.arange(tensor.numel(), device=tensor.device).reshape(size)
        return grid[tuple(tensor._indices())].reshape(-1)
    values = tensor.detach().values()
    marks = torch.arange(1, values.numel() + 1, device=tensor.device)
    marked = _with_values(tensor, marks.reshape(values.shape).double())
    flat = marked.to_dense().reshape(-1)
    where = flat.nonzero().reshape(-1)
    out = torch.empty_like(where)
    out[flat[where].long() - 1] = where
    return out


def _with_values(tensor: Any, values: torch.Tensor) -> Any:
    """A sparse tensor with the same indices and other values."""
    if tensor.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(
            tensor._indices(),
            values,
            tensor.shape,
            is_coalesced=tensor.is_coalesced(),
            check_invariants=False,
        )
    by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    return torch.sparse_compressed_tensor(
        tensor.crow_indices() if by_row else tensor.ccol_indices(),
        tensor.col_indices() if by_row else tensor.row_indices(),
        values,
        tensor.shape,
        layout=tensor.layout,
        check_invariants=False,
    )


def with_entries(tensor: Any, flat: torch.Tensor) -> Any:
    """A tensor of the layout and shape of ``tensor`` holding a flat dense vector.

    Where nothing is stored, the vector's entry is dropped.
    """
    if not is_sparse(tensor):
        return flat.reshape(tensor.shape)
    values = flat[positions(tensor)].reshape(stored(tensor).shape)
    return _with_values(tensor.detach(), values)


def fully_specified(tensor: Any) -> Any:
    """A copy of a sparse tensor in which every element is stored, zeros too.

    Anything else is returned as it is.
    """
    if not is_tensor_like(tensor) or not is_sparse(tensor):
        return tensor
    base = tensor.detach()
    # Marks are nonzero everywhere, so that no element is left out.
    marks = torch.arange(1, base.numel() + 1, dtype=torch.float64, device=base.device)
    marks = marks.reshape(base.shape)
    if base.layout is torch.sparse_coo:
        pattern = marks.to_sparse(base.sparse_dim())
    else:
        block = base.values().shape[1:3] if base.layout in BLOCKED else None
        pattern = marks.to_sparse(
            layout=base.layout, blocksize=block, dense_dim=base.dense_dim()
        )
    full = with_entries(pattern, base.to_dense().reshape(-1))
    return full.requires_grad_(tensor.requires_grad)


@dataclass(frozen=True)
class Cell:
    """One entry that can be moved: ``view`` writes to it, in place."""

    column: int  # in the flat dense vector
    index: tuple[int, ...]
    view: Any
    argument: Callable[[], Any]  # what to hand to the function while it is moved


def cells(tensor: Any) -> Iterator[Cell]:
    """Every entry of one input, ready to be moved in place.

    Functions that hold on to their inputs must see the move, so strided and sparse
    inputs are written where they are; an mkldnn input is copied back and forth.
    """
    if tensor.layout is MKLDNN:
        return _mkldnn_cells(tensor)
    return _stored_cells(tensor)


def _stored_cells(tensor: Any) -> Iterator[Cell]:
    # .data, so that the version counter does not see the move.
    values = stored(tensor).data
    columns = positions(tensor).tolist() if is_sparse(tensor) else None

    def argument() -> Any:
        return tensor

    for k, index in enumerate(product(*map(range, values.size()))):
        yield Cell(columns[k] if columns else k, index, values[index], argument)


def _mkldnn_cells(tensor: Any) -> Iterator[Cell]:
    for k, index in enumerate(product(*map(range, tensor.size()))):
        copy = tensor.detach().to_dense()

        def argument(copy: Any = copy) -> Any:
            return copy.to_mkldnn().requires_grad_(tensor.requires_grad)

        yield Cell(k, index, copy[index], argument)


@dataclass(frozen=True)
class Whole:
    """A whole input that can be moved along a direction, in place."""

    view: Any
    argument: Callable[[], Any]
    layout: Callable[[torch.Tensor], torch.Tensor]  # flat dense → shape of ``view``


def whole(tensor: Any) -> Whole:
    """One input, ready to be moved along any direction."""
    if tensor.layout is MKLDNN:
        copy = tensor.detach().to_dense()
        return Whole(
            copy,
            lambda: copy.to_mkldnn().requires_grad_(tensor.requires_grad),
            lambda flat: flat.reshape(copy.shape),
        )
    if not is_sparse(tensor):
        shape = tensor.shape
        return Whole(tensor.data, lambda: tensor, lambda flat: flat.reshape(shape))
    twin = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    values, places = stored(twin).data, positions(twin)
    # Elements stored twice share their move.
    shares = torch.bincount(places, minlength=1)[places]
    return Whole(
        values,
        lambda: twin,
        lambda flat: (flat[places] / shares).reshape(values.shape),
    )


@dataclass(frozen=True)
class Direction:
    """A direction in the space of one input: flat, real; two parts where complex."""

    parts: tuple[torch.Tensor, ...]

    @property
    def total(self) -> float:
        """The sum of all entries (they are not negative)."""
        return sum(float(part.sum()) for part in self.parts)

    def along(self, gradient: torch.Tensor) -> torch.Tensor:
        """The product of a flat gradient with this direction, part by part."""
        if len(self.parts) == 1:
            return gradient.dot(self.parts[0])
        pairs = torch.view_as_real(gradient.resolve_conj())
        real, imaginary = pairs.select(-1, 0), pairs.select(-1, 1)
        return real.dot(self.parts[0]) + 1j * imaginary.dot(self.parts[1])


@dataclass(frozen=True)
class Draws:
    """Random directions that are the same on every call, and leave the RNG alone.

    The numbers are those of a fresh generator in its initial state, drawn one tensor
    after the other: entries in [0, 1), then divided by the norm.
    """

    generator: torch.Generator = field(default_factory=torch.Generator)

    def direction(self, tensor: Any) -> Direction:
        """A direction for an input, zero where a sparse one stores nothing."""
        count = 2 if tensor.dtype.is_complex else 1
        return Direction(tuple(self._flat(tensor) for _ in range(count)))

    def weights(self, output: Any) -> torch.Tensor:
        """A flat vector for an output, of its dtype."""
        return self._unit(output.numel(), output.dtype, output.device)

    def _flat(self, tensor: Any) -> torch.Tensor:
        dtype = real_dtype(tensor.dtype)
        if not is_sparse(tensor):
            return self._unit(tensor.numel(), dtype, tensor.device)
        values = self._unit(stored(tensor).numel(), dtype, tensor.device)
        flat = torch.zeros(tensor.numel(), dtype=dtype, device=tensor.device)
        return flat.index_add_(0, positions(tensor), values)

    def _unit(self, n: int, dtype: torch.dtype, device: Any) -> torch.Tensor:
        # On the CPU whatever the default device, like the generator.
        drawn = torch.rand(n, generator=self.generator, device="cpu")
        vector = drawn.to(dtype=dtype, device=device)
        return vector.div_(vector.norm())
