"""Drawn numbers: exact in their dtype, readable, telling, repeatable, inside their set."""

import math

import numpy as np
import pytest

from gradproof.errors import UsageError
from gradproof.samples import arg, draw, neighbours, parse
from gradproof.samples.extents import evaluate, fill
from gradproof.space import Leaf, Space


def one(text, sizes=None, seed=0):
    (drawn,) = draw(parse(text), sizes or {}, seed)
    return drawn


def exact(array, dtype):
    parts = [array.real, array.imag] if np.iscomplexobj(array) else [array]
    precision = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    space = Space.of([Leaf("", (array.size,), precision)])
    return all(np.array_equal(space.snap(p.ravel()), p.ravel()) for p in parts)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "c128", "c64"])
@pytest.mark.parametrize(
    "tail", ["", "*0.5", "*0.001", "*30", "*2+1", "+100", "*1e-3 + 1"]
)
def test_normal_draws_are_exact_distinct_and_never_zero(dtype, tail):
    drawn = one(f"x: {dtype}[4,5]{tail}")
    assert exact(drawn.array, drawn.dtype)
    assert (drawn.array != 0).all()
    assert len(np.unique(drawn.array)) > 10
    if drawn.dtype in ("float64", "float32", "complex128"):
        assert len(np.unique(drawn.array)) == 20


def test_draws_are_short_and_off_the_corners_of_functions():
    x = one("x: f64[1000]").array
    grid = x * 2**14
    assert np.array_equal(grid, np.round(grid))
    small = one("x: bf16[50]").array
    assert ((small * 64) % 2 == 1).mean() > 0.8
    for v in (x, small, one("x: f32[50]*3").array):
        assert not np.isin(v * 4, np.arange(-100, 100)).any()
        assert np.abs(v).min() > 0.1
    assert 0.7 < x.std() < 1.4
    assert abs(x.mean()) < 0.2
    y = one("x: f64[1000]*3 + 10").array
    assert 9 < y.mean() < 11
    assert 2 < y.std() < 4


def test_many_floats_are_all_different():
    assert len(np.unique(one("x: f64[50, 60]").array)) == 3000
    assert len(np.unique(one("x: f32[50, 60] in 0..1").array)) == 3000


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("f64[40] in -1..1", -1, 1),
        ("f32[40]*2+1 in -1..1", -1, 1),
        ("f32[40]*2+50 in -1..1", -1, 1),
        ("bf16[9] in 0.1..0.2", 0.1, 0.2),
        ("f64[40] in 0..", 0, math.inf),
        ("f64[40] in ..-3", -math.inf, -3),
        ("f64[40] + 5 in 0..", 0, math.inf),
        ("f64[40] in 1e-9..1e-8", 1e-9, 1e-8),
        ("f64[40] positive", 0, math.inf),
    ],
)
def test_ranges_hold(text, low, high):
    x = one("x: " + text).array
    assert ((x > low) & (x < high)).all()
    assert len(np.unique(x)) >= min(x.size, 9) - 1


def test_a_domain_is_kept_with_room_and_handed_on():
    drawn = one("r: f64[200] within 0..1")
    assert (drawn.low, drawn.high) == (0.0, 1.0)
    assert ((drawn.array > 0.1) & (drawn.array < 0.9)).all()
    half = one("r: f64[200] within 2..")
    assert (half.low, half.high) == (2.0, math.inf)
    assert (half.array > 2.1).all()


def test_integers_repeat_but_are_not_all_alike():
    for seed in range(20):
        i = one("i: int[B] in 0..V", {"B": 4, "V": 7}, seed).array
        assert i.dtype == np.int64
        assert ((i >= 0) & (i < 7)).all()
        assert 1 < len(np.unique(i)) < 4
    assert set(one("i: int[9]").array) <= {0, 1, 2}
    assert (one("i: i8[9] in -3..").array >= -3).all()


def test_masks_have_both_values_and_no_empty_row():
    for seed in range(20):
        m = one("m: bool[3, 4]", seed=seed).array
        assert m.any(axis=-1).all()
        assert not m.all()
    assert one("m: bool[]").array.all()
    column = one("m: bool[5, 1]").array
    assert column.any()
    assert not column.all()


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "c64"])
def test_structured_draws_lie_in_their_set(dtype):
    a = one(f"A: {dtype}[2,5,5]*4 spd").array
    adjoint = np.swapaxes(a, -1, -2).conj()
    assert np.array_equal(a, adjoint)
    eigenvalues = np.linalg.eigvalsh(a)
    assert eigenvalues.min() > 0.5
    assert np.linalg.cond(a).max() < 100
    s = one(f"A: {dtype}[5,5] symmetric").array
    assert np.array_equal(s, s.T.conj())
    low = one(f"A: {dtype}[5,5] triangular").array
    up = one(f"A: {dtype}[5,5] upper").array
    assert not np.triu(low, 1).any()
    assert not np.tril(up, -1).any()
    assert np.abs(np.diag(low)).min() >= 0.5
    unit = one(f"u: {dtype}[4,3] unit[0]").array
    assert np.allclose((np.abs(unit) ** 2).sum(0), 1, rtol=0.02)
    for got, name in ((a, dtype), (s, dtype), (low, dtype), (unit, dtype)):
        full = {"f64": "float64", "f32": "float32", "bf16": "bfloat16"}.get(
            name, "complex64"
        )
        assert exact(got, full)


def test_simplex_and_sorted():
    p = one("p: bf16[4,5] simplex").array
    assert np.array_equal(p.sum(-1), np.ones(4))
    assert (p > 0).all()
    assert exact(p, "bfloat16")
    assert np.array_equal(one("p: f64[4,5] simplex[0]").array.sum(0), np.ones(5))
    s = one("s: f64[4,5] sorted").array
    assert (np.diff(s, axis=-1) > 0).all()
    assert one("s: f64[4,5] sorted").pattern == "sorted"


def test_values_sizes_and_own_objects_pass_through():
    thing = object()
    described = [
        arg.value(thing),
        arg.fixed(thing),
        *parse('s: size V; m="mean"; n: [1]'),
    ]
    own, held, size, mode, numbers = draw(described, {"V": 9}, 0)
    assert own.value is thing
    assert own.array is None
    assert held.fixed
    assert size.value == 9
    assert (mode.value, mode.keyword) == ("mean", True)
    assert numbers.value == [1]
    assert str(described[0]) == "<given object>"


def test_what_is_no_description_stands_for_itself():
    thing = object()
    drawn = draw([arg.randn(2), 1e-6, thing, "mean"], {}, 0)
    assert [one.value for one in drawn[1:]] == [1e-6, thing, "mean"]


def test_a_seed_repeats_and_inputs_do_not_disturb_each_other():
    x, w = draw(parse("x: f64[6]; w: f64[6]"), {}, 7)
    assert np.array_equal(x.array, one("x: f64[6]", seed=7).array)
    assert not np.array_equal(x.array, w.array)
    assert not np.array_equal(x.array, one("x: f64[6]", seed=8).array)


def test_unset_symbols_get_small_unlike_sizes():
    sizes = fill(["B", "T", "D", "H"], {})
    assert sizes == {"B": 3, "T": 5, "D": 4, "H": 7}
    assert fill(["B", "T"], {"B": 5})["T"] == 3
    assert fill(["B"], {"N": 3})["B"] == 5
    many = list(fill([f"s{i}" for i in range(20)], {}).values())
    assert len(set(many)) == 20
    assert draw(parse("x: f64[B, 2*T+1]"), {"B": 2}, 0)[0].array.shape == (2, 7)


def test_extents_bind_products_before_sums():
    assert evaluate("N+2*N-1", {"N": 5}) == 14
    assert evaluate("N//2*3", {"N": 5}) == 6


def test_neighbours_change_every_symbol_then_each():
    found = neighbours(["B", "T"], {"B": 3})
    assert found[0]["B"] != 3
    assert found[0]["T"] != fill(["B", "T"], {"B": 3})["T"]
    assert {"B": 1, "T": 5} in found
    assert {"B": 3, "T": 17} in found
    assert neighbours([], {}) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x: f64[B-5]", "x: f64[B-5] would have the shape [-2]"),
        ("x: f64[99999,99999]", "are too many to draw"),
        ("x: f64[B//Z]", "the extent B//Z divides by 0"),
        ("x: int[3] in 5..V", "x: the range 5..4 is empty"),
        ("x: u8[3] in 0..300", "x: uint8 does not reach from 0 to 300"),
        ("x: f16[3]*1e6", "goes beyond 6.55e+04, where float16 ends"),
        ("x: f64[3] in 2..3 within 0..1", "lies outside its domain"),
        ("x: f64[3] in 0..1e-300", "lie too close together"),
        ("x: bf16[3] in 1..1.001", "holds too few numbers between 1.0 and 1.001"),
    ],
)
def test_what_cannot_be_drawn_is_said(text, sentence):
    with pytest.raises(UsageError) as caught:
        draw(parse(text), {"Z": 0, "V": 4}, 0)
    assert sentence in str(caught.value)


def test_a_negative_seed_and_a_missing_size_are_said():
    with pytest.raises(UsageError, match="a seed is a whole number from 0 on, not -1"):
        draw([], {}, -1)
    with pytest.raises(UsageError, match="the extent B needs a size for B"):
        evaluate("B", {})


@pytest.mark.parametrize("text", ["int[7] permutation", "int[5, 3] permutation[0]",
                                  "i32[2, 4, 6] permutation"])  # fmt: skip
@pytest.mark.parametrize("seed", range(4))
def test_a_permutation_has_each_once_and_is_not_its_own_inverse(text, seed):
    (d,) = parse(f"p: {text}")
    assert str(d) == f"p: {text}"
    (one,) = draw([d], {}, seed)
    axis = 0 if "[0]" in text else -1
    rows = np.moveaxis(one.array, axis, -1).reshape(-1, one.array.shape[axis])
    for row in rows:
        assert sorted(row) == list(range(len(row)))
        assert (np.argsort(row) != row).any()
        assert (row != np.arange(len(row))).all()
    assert one.pattern == ""


def test_a_permutation_is_of_whole_numbers():
    for text in ("f64[3] permutation", "c128[3] permutation", "bool[3] permutation",
                 "int[3] unit", "int[3] permutation in 0..3"):  # fmt: skip
        with pytest.raises(UsageError):
            parse(f"p: {text}")
    assert str(arg.permutation("N")) == "int[N] permutation"
    assert str(arg.permutation("N", 2, axis=0)) == "int[N, 2] permutation[0]"
