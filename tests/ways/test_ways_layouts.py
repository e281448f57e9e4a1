"""Presented tensors: equal numbers, honest strides, guards that tell."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradproof.adapters import torch_layouts as layouts
from gradproof.space import Leaf

SHAPES = [
    (),
    (1,),
    (5,),
    (3, 4),
    (1, 7),
    (7, 1),
    (2, 3, 4),
    (2, 3, 4, 5),
    (2, 3, 2, 2, 2),
]
DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.complex128,
    torch.complex64,
    torch.int64,
    torch.bool,
]
ALL = ("contiguous", "packed", *layouts.LAYOUTS, "expanded along axis 0")


def numbers(shape, dtype, layout="contiguous"):
    """Distinct numbers, constant along the axes of stride 0 of ``layout``."""
    n = int(np.prod(shape))
    values = np.arange(1.0, n + 1).reshape(shape)
    layouts.constant(values, Leaf("x", shape), layout)
    return torch.from_numpy(values).to(dtype)


def presented(shape, layout, dtype=torch.float64):
    source = numbers(shape, dtype, layout)
    return source, layouts.present(source, layout)


def kernel_read(t):
    """What a kernel sees that takes the data pointer and assumes packed memory."""
    strides = torch.empty(t.shape).stride()
    return torch.as_strided(t, t.shape, strides, t.storage_offset())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_layout_holds_the_same_numbers(shape, dtype):
    for layout in ALL:
        if layouts.applicable(Leaf("x", shape), layout):
            source, t = presented(shape, layout, dtype)
            assert torch.equal(t, source), layout
            assert t.dtype is dtype
            assert t.shape == source.shape
            assert layouts.guards_intact(t), layout


@pytest.mark.parametrize(
    ("shape", "layout", "strides", "offset"),
    [
        ((3, 4), "contiguous", (4, 1), 0),
        ((3, 4), "transposed", (1, 3), 0),
        ((2, 1, 3), "transposed", (1, 2, 2), 0),
        ((3, 4), "sliced", (8, 2), 0),
        ((5,), "sliced", (2,), 0),
        ((3, 4), "offset", (20, 1), 8),
        ((5,), "offset", (1,), 8),
        ((), "offset", (), 8),
        ((3, 4), "unaligned", (4, 1), 0),
        ((3, 4), "expanded", (1, 0), 0),
        ((3, 4), "expanded along axis 0", (0, 1), 0),
        ((3, 4), "scalar expand", (0, 0), 0),
        ((2, 3, 4, 5), "channels_last", (60, 1, 15, 3), 0),
        ((2, 3, 2, 2, 2), "channels_last", (24, 1, 12, 6, 3), 0),
    ],
)
def test_the_layout_is_what_its_name_says(shape, layout, strides, offset):
    _, t = presented(shape, layout)
    assert (t.stride(), t.storage_offset()) == (strides, offset)


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((3, 4), "transposed"),
        ((3, 4), "sliced"),
        ((5,), "sliced"),
        ((3, 4), "offset"),
        ((3, 4), "expanded"),
        ((3, 4), "expanded along axis 0"),
        ((3, 4), "scalar expand"),
        ((2, 3, 4, 5), "channels_last"),
    ],
)
def test_a_kernel_that_assumes_packed_memory_reads_something_else(shape, layout):
    source, t = presented(shape, layout)
    assert not t.is_contiguous()
    assert not torch.equal(kernel_read(t), source)


@pytest.mark.parametrize("layout", ["sliced", "offset", "expanded", "scalar expand"])
def test_beyond_its_own_numbers_a_kernel_meets_nan(layout):
    _, t = presented((3, 4), layout)
    assert kernel_read(t).isnan().any()


def test_only_the_unaligned_layout_is_not_aligned_to_64_bytes():
    for layout in ALL:
        if layouts.applicable(Leaf("x", (2, 3, 4, 5)), layout):
            _, t = presented((2, 3, 4, 5), layout, torch.float32)
            assert (t.data_ptr() % 64 != 0) == (layout == "unaligned"), layout


def test_an_offset_is_seen_by_who_starts_at_the_beginning_of_the_storage():
    source, t = presented((3, 4), "offset")
    assert not torch.equal(torch.as_strided(t, t.shape, t.stride(), 0), source)


def test_narrow_rows_are_not_padded_where_that_would_cost_their_memory_many_times():
    small = layouts.present(torch.ones(4, 2), "offset")
    large = layouts.present(torch.ones(1 << 16, 2), "offset")
    assert small.stride() != (2, 1)
    assert large.stride() == (2, 1)
    assert large.storage_offset() > 0


def test_as_given_means_the_strides_of_the_user():
    given = numbers((4, 3), torch.float64).t()
    assert layouts.present(given).stride() == given.stride()
    assert layouts.present(given, "packed").is_contiguous()


def test_a_presented_tensor_is_a_leaf_of_its_own():
    source = torch.ones(3, requires_grad=True)
    t = layouts.present(source, "sliced", requires_grad=True)
    assert t.is_leaf
    assert t.requires_grad
    assert not t._is_view()
    (grad,) = torch.autograd.grad((t * t).sum(), t)
    assert torch.equal(grad, torch.full((3,), 2.0))


def test_integers_stand_between_values_of_their_own():
    source = torch.tensor([3, 1, 2])
    t = layouts.present(source, "sliced")
    read = kernel_read(t)
    assert set(read.tolist()) <= {1, 2, 3}
    assert not torch.equal(read, source)


@pytest.mark.parametrize("layout", [x for x in ALL if x != "channels_last"])
def test_a_write_after_its_memory_is_seen(layout):
    _, t = presented((3, 4), layout)
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    torch.as_strided(t, (1,), (1,), t.storage_offset() + reach + 1).fill_(0.0)
    assert not layouts.guards_intact(t)
    assert layouts.outside(t) == "1 entry after its memory"


def test_a_write_between_and_before_its_memory_is_seen():
    _, t = presented((3, 4), "offset")
    torch.as_strided(t, (3,), (1,), t.storage_offset() - 3).fill_(0.0)
    torch.as_strided(t, (2,), (1,), t.storage_offset() + 4).fill_(0.0)
    assert layouts.outside(t) == "3 entries before and 2 entries between its memory"


def test_a_write_in_front_of_the_storage_is_seen():
    _, t = presented((5,), "contiguous")
    assert t in layouts._GUARDS  # else the write below would be into foreign memory
    before = (np.ctypeslib.ctypes.c_double * 1).from_address(t.data_ptr() - 8)
    before[0] = 1.0
    assert layouts.outside(t) == "1 entry before its memory"


def test_a_write_inside_its_memory_is_not_outside():
    for layout in ("contiguous", "transposed", "sliced", "offset", "unaligned"):
        _, t = presented((3, 4), layout)
        t.fill_(7.0)
        assert layouts.guards_intact(t), layout


def test_a_tensor_that_was_not_presented_has_no_guards_to_break():
    assert layouts.guards_intact(torch.ones(3))


def test_guards_go_with_their_tensor():
    before = len(layouts._GUARDS)
    t = layouts.present(torch.ones(3))
    assert len(layouts._GUARDS) == before + 1
    del t
    assert len(layouts._GUARDS) == before


@pytest.mark.parametrize(
    ("shape", "layout", "yes"),
    [
        ((), "offset", True),
        ((), "unaligned", True),
        ((), "sliced", False),
        ((), "scalar expand", False),
        ((1,), "sliced", False),
        ((1,), "scalar expand", False),
        ((5,), "transposed", False),
        ((5,), "sliced", True),
        ((5,), "expanded", False),
        ((5,), "scalar expand", True),
        ((1, 7), "transposed", False),
        ((3, 4), "transposed", True),
        ((3, 4), "expanded", True),
        ((3, 4), "channels_last", False),
        ((2, 1, 4, 5), "channels_last", False),
        ((2, 3, 1, 1), "channels_last", False),
        ((2, 3, 4, 5), "channels_last", True),
        ((0, 3), "sliced", False),
        ((0, 3), "contiguous", True),
    ],
)
def test_a_layout_applies_only_where_it_is_another_layout(shape, layout, yes):
    assert layouts.applicable(Leaf("x", shape), layout) == yes


def test_a_layout_that_a_tensor_cannot_have_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3, 4\) cannot be channels_last"):
        layouts.present(torch.ones(3, 4), "channels_last")


def test_one_word_is_meant_for_all_leaves():
    assert layouts.layouts_of("sliced", 2) == ("sliced", "sliced")
    assert layouts.layouts_of("sliced,offset", 2) == ("sliced", "offset")


def test_constant_numbers_for_complex_leaves_keep_both_parts():
    leaf = Leaf("z", (2, 3), is_complex=True)
    view = np.arange(12.0).reshape(2, 3, 2)
    layouts.constant(view, leaf, "scalar expand")
    assert (view == [0.0, 1.0]).all()
    view = np.arange(12.0).reshape(2, 3, 2)
    layouts.constant(view, leaf, "expanded along axis 0")
    assert (view[1] == np.arange(6.0).reshape(3, 2)).all()


@pytest.mark.parametrize("layout", ALL)
@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (3, 4), (1, 7), (2, 1, 4, 5), (0, 3)]
)
def test_all_around_a_window_is_looked_at_once_and_the_window_never(shape, layout):
    if not layouts.applicable(Leaf("x", shape), layout):
        return
    guard = layouts._GUARDS[layouts.present(torch.zeros(shape), layout)]
    guard.block.zero_()
    for part in layouts._around(guard):
        part += 1
    guard.block.as_strided(guard.shape, guard.strides, guard.start).add_(1)
    assert (guard.block == 1).all()
