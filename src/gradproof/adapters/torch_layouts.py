"""The same numbers, laid out in memory in every way that PyTorch produces.

Each presented tensor is a window on a larger block of NaN (for integers: of one of its
own values), so that a kernel which reads as if the window were packed meets NaN rather
than the right numbers by luck, and a write outside the window can be seen afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from gradproof.adapters.torch_compare import all_are, words
from gradproof.space import Leaf

CONTIGUOUS = "contiguous"  # as it was given: the layout of the plain way
PACKED = "packed"  # row-major and dense, where it was given otherwise
TRANSPOSED = "transposed"
SLICED = "sliced"
OFFSET = "offset"
UNALIGNED = "unaligned"
EXPANDED = "expanded"
SCALAR = "scalar expand"
CHANNELS_LAST = "channels_last"

LAYOUTS = (
    TRANSPOSED,
    SLICED,
    OFFSET,
    UNALIGNED,
    EXPANDED,
    SCALAR,
    CHANNELS_LAST,
)  # fmt: skip

# Bytes of guard before and after a window; a multiple of the widest vector register, so
# that a guard in front does not change the alignment of what follows.
_GUARD = 256
_ALIGNED = 64

# From this many elements on, narrow rows are not padded: it would cost many times their
# own memory.
_LARGE = 1 << 16


def along(layout: str, axis: int) -> str:
    """The expanded layout whose stride is 0 along ``axis``."""
    return f"{EXPANDED} along axis {axis}"


def axis_of(layout: str, shape: tuple[int, ...]) -> int | None:
    """The axis of stride 0 of an expanded layout, None for every other layout.

    Without an axis in its name it is the last that has more than one element.
    """
    if not layout.startswith(EXPANDED):
        return None
    if layout != EXPANDED:
        return int(layout.rsplit(" ", 1)[1])
    wide = [a for a, extent in enumerate(shape) if extent > 1]
    return wide[-1] if wide else None


def layouts_of(spec: str, count: int) -> tuple[str, ...]:
    """One layout for each of ``count`` leaves: ``spec`` is one word, or one each.

    Args:
        spec: a layout, or layouts separated by commas.
        count: how many leaves there are.
    """
    words = tuple(word.strip() for word in spec.split(","))
    return words * count if len(words) == 1 else words


def applicable(leaf: Leaf, layout: str) -> bool:
    """Whether ``layout`` is another layout than packed for a leaf of that shape."""
    shape = leaf.shape
    if layout in (CONTIGUOUS, PACKED):
        return True
    if prod(shape) == 0:
        return False
    wide = sum(extent > 1 for extent in shape)
    if layout == TRANSPOSED:
        return wide >= 2
    if layout in (OFFSET, UNALIGNED):
        return True
    if layout == CHANNELS_LAST:
        return len(shape) in (4, 5) and shape[1] > 1 and prod(shape[2:]) > 1
    if layout.startswith(EXPANDED):
        axis = axis_of(layout, shape)
        # With one axis alone, stride 0 along it is stride 0 altogether.
        within = axis is not None and axis < len(shape)
        return within and shape[axis or 0] > 1 and wide >= 2
    return wide >= 1  # sliced, scalar expand


def constant(view: np.ndarray[Any, Any], leaf: Leaf, layout: str) -> None:
    """Make ``view``, of the leaf's view shape, a value that ``layout`` can hold."""
    if layout == SCALAR and view.size:
        first = (0,) * len(leaf.shape)
        view[...] = view[first].copy()
    elif (axis := axis_of(layout, leaf.shape)) is not None:
        view[...] = np.take(view, [0], axis=axis)


@dataclass(frozen=True)
class _Plan:
    """A window: strides and offset in elements, and whether it starts unaligned."""

    strides: tuple[int, ...]
    offset: int = 0
    unaligned: bool = False


def _dense(shape: tuple[int, ...]) -> list[int]:
    """Strides, in elements, of a dense row-major block of ``shape``."""
    strides, reach = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = reach
        reach *= max(shape[axis], 1)
    return strides


def _plan(
    shape: tuple[int, ...], given: tuple[int, ...], itemsize: int, layout: str
) -> _Plan:
    """Where the elements of a tensor of ``shape`` lie in its block."""
    if layout == CONTIGUOUS:
        return _Plan(given)
    wide = [a for a, extent in enumerate(shape) if extent > 1]
    inner = wide[-1] if wide else 0
    strides = _dense(shape)
    if layout == PACKED:
        return _Plan(tuple(strides))
    if layout == UNALIGNED:
        return _Plan(tuple(strides), unaligned=True)
    if layout == TRANSPOSED and len(wide) >= 2:
        a, b = wide[-2:]
        swapped = list(shape)
        swapped[a], swapped[b] = swapped[b], swapped[a]
        strides = _dense(tuple(swapped))
        strides[a], strides[b] = strides[b], strides[a]
        return _Plan(tuple(strides))
    if layout in (SLICED, TRANSPOSED) and wide:
        doubled = list(shape)
        doubled[inner] *= 2
        strides = _dense(tuple(doubled))
        strides[inner] *= 2
        return _Plan(tuple(strides))
    if layout == OFFSET:
        # As torch.cat sends it: columns of a wider block, from its middle.
        margin = max(1, _ALIGNED // itemsize)
        if wide and (prod(shape) < _LARGE or shape[inner] >= margin):
            padded = list(shape)
            padded[inner] += 2 * margin
            strides = _dense(tuple(padded))
        return _Plan(tuple(strides), margin)
    if layout == SCALAR:
        return _Plan((0,) * len(shape))
    axis = axis_of(layout, shape)
    if axis is not None:
        strides = _dense((*shape[:axis], 1, *shape[axis + 1 :]))
        strides[axis] = 0
        return _Plan(tuple(strides))
    if layout == CHANNELS_LAST and len(shape) in (4, 5):
        order = (0, *range(2, len(shape)), 1)
        moved = _dense(tuple(shape[a] for a in order))
        for place, a in enumerate(order):
            strides[a] = moved[place]
        return _Plan(tuple(strides))
    raise ValueError(f"a tensor of shape {shape} cannot be {layout}")


@dataclass(frozen=True, eq=False)
class _Guard:
    """The block behind a presented tensor, and where the window lies in it."""

    block: Tensor  # one axis, of the window's dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    fill: Any


_GUARDS: WeakIdKeyDictionary = WeakIdKeyDictionary()


def present(
    tensor: Tensor, layout: str = CONTIGUOUS, *, requires_grad: bool = False
) -> Tensor:
    """A new tensor, equal to ``tensor``, laid out as ``layout`` between guards.

    A leaf of the graph, no view, of the same shape, dtype and device. Where ``layout``
    has stride 0, ``tensor`` must be constant along those axes (see ``constant``).

    Args:
        tensor: a strided tensor of any shape.
        layout: a layout that is ``applicable``.
        requires_grad: whether the result requires grad.
    """
    source = tensor.detach()
    shape = tuple(source.shape)
    plan = _plan(shape, tuple(source.stride()), source.element_size(), layout)
    reach = 1 + sum(
        (extent - 1) * stride
        for extent, stride in zip(shape, plan.strides, strict=True)
    )
    # A kernel that takes the window for packed reads this far: into the guard.
    room = plan.offset + max(reach, source.numel(), 1) + _GUARD // source.element_size()
    fill = _fill(source)
    own = _collapsed(shape, plan.strides)
    skip = (plan.offset, reach) if reach == prod(own) else (0, 0)
    block, window, start = _blocks(source, room, fill, skip, unaligned=plan.unaligned)
    empty = torch.empty(0, dtype=source.dtype, device=source.device)
    out = empty.set_(
        window.untyped_storage(),
        window.storage_offset() + plan.offset,
        shape,
        plan.strides,
    )
    if source.numel():
        target = out.as_strided(own, plan.strides, out.storage_offset())
        target.copy_(source[tuple(slice(extent) for extent in own)])
    _GUARDS[out] = _Guard(block, own, plan.strides, start + plan.offset, fill)
    return out.requires_grad_(requires_grad)


def _collapsed(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """``shape`` with extent 1 where the stride is 0: each element in memory once."""
    return tuple(
        min(extent, 1) if stride == 0 else extent
        for extent, stride in zip(shape, strides, strict=True)
    )


def _fill(source: Tensor) -> Any:
    """What the guards hold: NaN, or for integers a value that is safe as an index."""
    if source.is_complex():
        return complex(np.nan, np.nan)
    if source.is_floating_point():
        return float("nan")
    return source.reshape(-1)[0].item() if source.numel() else 0


def _blocks(
    source: Tensor, room: int, fill: Any, skip: tuple[int, int], *, unaligned: bool
) -> tuple[Tensor, Tensor, int]:
    """The whole block; the part of it that a window may use; where that part starts.

    Of that part ``skip`` (first, count) is written anyway, and not filled.

    On the CPU the second has a storage of its own that begins inside the block: a
    window at its beginning has storage offset 0 and still a guard in front.
    """
    size, dtype = source.element_size(), source.dtype
    ahead = _GUARD // size + (1 if unaligned else 0)
    if source.device.type != "cpu":
        block = torch.full((ahead + room,), fill, dtype=dtype, device=source.device)
        return block, block[ahead:], ahead
    raw = np.empty((ahead + room) * size + _ALIGNED, dtype=np.uint8)
    first = -raw.ctypes.data % _ALIGNED
    block = torch.frombuffer(raw, dtype=dtype, offset=first, count=ahead + room)
    block[: ahead + skip[0]].fill_(fill)
    block[ahead + sum(skip) :].fill_(fill)
    window = torch.frombuffer(raw, dtype=dtype, offset=first + ahead * size, count=room)
    return block, window, ahead


def _intact(guard: _Guard) -> bool:
    """Whether nothing but the window holds anything else than the fill."""
    block = guard.block
    clean = torch.full((1,), guard.fill, dtype=block.dtype, device=block.device)
    return all(all_are(part, clean) for part in _around(guard))


def _around(guard: _Guard) -> Iterator[Tensor]:
    """The parts of a block that are not its window: the ends, and gaps of each axis."""
    block, start = guard.block, guard.start
    axes = sorted(zip(guard.strides, guard.shape, strict=True))
    if not prod(guard.shape):
        axes, reach = [], 0
    else:
        reach = 1
    for k, (stride, extent) in enumerate(axes):
        if extent > 1 and stride > reach:
            outer = [(s, e) for s, e in axes[k + 1 :] if e > 1]
            strides, shape = zip(
                *outer, (stride, extent - 1), (1, stride - reach), strict=True
            )
            yield block.as_strided(shape, strides, start + reach)
        if extent > 1:
            reach += (extent - 1) * stride
    yield block[:start]
    yield block[start + reach :]


def outside(tensor: Tensor) -> str:
    """What was written outside a presented tensor's memory, "" when nothing was.

    As in "3 entries before and 1 entry after its memory"; "between" where the window
    has gaps.
    """
    if tensor not in _GUARDS:
        return ""
    guard: _Guard = _GUARDS[tensor]
    if _intact(guard):
        return ""
    with torch.no_grad():
        now = guard.block.clone()
        now.as_strided(guard.shape, guard.strides, guard.start).fill_(guard.fill)
        clean = torch.full((1,), guard.fill, dtype=now.dtype, device=now.device)
        share = 2 if now.is_complex() else 1
        differs = (words(now) != words(clean)).reshape(-1, share).any(dim=1)
        where = differs.nonzero().reshape(-1)
    if not where.numel():
        return ""
    reach = sum(
        (extent - 1) * stride
        for extent, stride in zip(guard.shape, guard.strides, strict=True)
    )
    before = int((where < guard.start).sum())
    after = int((where > guard.start + reach).sum())
    counts = ((before, "before"), (int(where.numel()) - before - after, "between"),
              (after, "after"))  # fmt: skip
    parts = [f"{_entries(n)} {place}" for n, place in counts if n]
    return f"{' and '.join(parts)} its memory"


def _entries(n: int) -> str:
    return "1 entry" if n == 1 else f"{n} entries"


def guards_intact(tensor: Tensor) -> bool:
    """Whether the memory around a presented tensor is as ``present`` left it.

    True for a tensor that was not presented.
    """
    return not outside(tensor)
