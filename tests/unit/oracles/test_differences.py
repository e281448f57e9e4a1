"""Columns and directions: right, within bounds, and nowhere they must not go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from primals import Plain, Raising, jacobian

from gradproof.oracles import Differences
from gradproof.rule import Primal, Reply
from gradproof.space import Leaf, Space
from gradproof.verdict import Code

PLANS = ["quick", "thorough"]
MATRIX = np.random.default_rng(2).normal(size=(5, 7))
POINT = np.random.default_rng(4).normal(size=7)


def dense(x: np.ndarray) -> np.ndarray:
    return np.tanh(MATRIX @ x)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("precision", "sharp"), [("float64", 1e-8), ("float32", 1e-2), ("bfloat16", 2.0)]
)
def test_columns_are_within_bounds(plan: str, precision: str, sharp: float) -> None:
    oracle = Differences(Plain(dense, POINT, precision))
    c = oracle.columns(np.arange(7), plan)
    true = jacobian(dense, oracle.point)
    assert c.value.shape == c.bar.shape == c.bound.shape == c.code.shape == (5, 7)
    assert c.left.shape == c.right.shape == (5, 7)
    assert c.noise.shape == (5,)
    assert (c.code == Code.OK).all()
    assert (np.abs(c.value - true) <= c.bound).all()
    assert (c.bar <= c.bound).all()
    assert np.median(c.bound) < sharp


@pytest.mark.parametrize("plan", PLANS)
def test_columns_come_in_the_order_asked(plan: str) -> None:
    oracle = Differences(Plain(dense, POINT))
    some = oracle.columns(np.array([5, 2]), plan)
    true = jacobian(dense, POINT)[:, [5, 2]]
    assert (np.abs(some.value - true) <= some.bound).all()
    assert oracle.columns(np.zeros(0, dtype=int), plan).value.shape == (5, 0)


@pytest.mark.parametrize("plan", PLANS)
def test_direction_is_within_bounds(plan: str) -> None:
    oracle = Differences(Plain(dense, POINT))
    u = oracle.scales() * np.array([1, -0.5, 0, 1.5, 1, -1, 0.75])
    e = oracle.direction(u, plan)
    assert (np.abs(e.value - jacobian(dense, POINT) @ u) <= e.bound).all()
    assert e.bound.max() < 1e-8
    far = oracle.direction(1e6 * u, plan)
    assert (np.abs(far.value - 1e6 * e.value) <= far.bound + 1e6 * e.bound).all()
    assert far.bound.max() < 1e-2


def test_quick_columns_cost_four_values_each() -> None:
    primal = Plain(dense, POINT)
    oracle = Differences(primal)
    c = oracle.columns(np.arange(7))
    assert c.evaluations == 28
    assert oracle.evaluations == len(primal.asked) == 29


def test_direction_along_nothing_is_zero() -> None:
    e = Differences(Plain(dense, POINT)).direction(np.zeros(7))
    assert (e.value == 0).all()
    assert (e.bound == 0).all()
    assert e.evaluations == 0


def test_scales_are_powers_of_two_of_the_coordinates_size() -> None:
    oracle = Differences(Plain(lambda x: x, [8.0, 1.0, 1.5, 0.0, 1000.0]))
    assert oracle.scales().tolist() == [2.0, 1.0, 1.0, 1.0, 128.0]
    assert Differences(Plain(lambda x: x, np.zeros(3))).scales().tolist() == [0.25] * 3


def test_a_small_coordinate_takes_the_scale_of_its_leaf_alone() -> None:
    class Two(Plain):
        def __init__(self) -> None:
            super().__init__(lambda x: x[:1] * x[2:3], [1e-3, 2e-3, 1e6, 1e6])
            self.domain = Space.of([Leaf("a", (2,)), Leaf("b", (2,))])

    scales = Differences(Two()).scales()
    assert scales[:2].max() < 1e-3
    assert scales[2:].min() > 1e5


@pytest.mark.parametrize("plan", PLANS)
def test_values_are_asked_inside_the_bounds(plan: str) -> None:
    primal = Plain(np.sqrt, [0.001, 0.5, 0.999], low=0.0, high=1.0)
    oracle = Differences(primal)
    c = oracle.columns(np.arange(3), plan)
    oracle.direction(np.array([0.25, -0.25, 0.25]), plan)
    asked = np.array(primal.asked)
    assert asked.min() >= 0.0
    assert asked.max() <= 1.0
    true = np.diag(0.5 / np.sqrt(primal.point))
    assert (c.code == Code.OK).all()
    assert (np.abs(c.value - true) <= c.bound).all()


@pytest.mark.parametrize("plan", PLANS)
def test_a_point_on_the_bound_is_left_on_one_side(plan: str) -> None:
    primal = Plain(lambda x: x * x + np.sin(x), [0.0, 1.0], low=0.0)
    c = Differences(primal).columns(np.array([0]), plan)
    assert np.array(primal.asked)[:, 0].min() >= 0.0
    assert abs(c.value[0, 0] - 1.0) <= c.bound[0, 0] < 1e-3


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("plan", PLANS)
def test_displaced_points_are_representable(precision: str, plan: str) -> None:
    primal = Plain(lambda x: x * x, [1.1, -0.3, 77.0], precision)
    oracle = Differences(primal)
    oracle.columns(np.arange(3), plan)
    oracle.direction(np.array([0.3, 0.1, -7.0]), plan)
    for x in primal.asked:
        assert (primal.domain.snap(x) == x).all()


@pytest.mark.parametrize("plan", PLANS)
def test_division_is_by_what_was_moved(plan: str) -> None:
    # x ± h is rounded in bfloat16; the values are exact, so that only a division by
    # the nominal step could be wrong.
    class Exact(Plain):
        def value(self, x: np.ndarray) -> Reply:
            return Reply(3.0 * x)

    for x in (1.0078125, 255.0, 0.0123, 3.98):
        primal = Exact(lambda x: 3.0 * x, [x, x / 3], "bfloat16")
        c = Differences(primal).columns(np.array([0]), plan)
        assert c.value[0, 0] == pytest.approx(3.0, rel=1e-6)


@pytest.mark.parametrize("plan", PLANS)
def test_structural_zeros_are_answered(plan: str) -> None:
    c = Differences(Plain(lambda x: 1 + np.sin(x), POINT)).columns(np.arange(7), plan)
    off = ~np.eye(7, dtype=bool)
    assert (c.value[off] == 0).all()
    assert (c.code[off] == Code.OK).all()
    assert c.bound[off].max() < 1e-9
    zero = Differences(Plain(lambda x: 0 * x, POINT)).columns(np.arange(7), plan)
    assert zero.bound.max() < 1e-300


def test_a_dead_relu_is_a_zero_and_a_grid_is_not() -> None:
    relu = Plain(lambda x: np.maximum(x, 0), -np.linspace(0.1, 1, 10))
    c = Differences(relu).columns(np.arange(10))
    assert (c.value == 0).all()
    assert c.bound.max() < 1e-9
    grid = Plain(lambda x: np.round(x, 2), np.linspace(0.1, 1, 10) + 0.003)
    c = Differences(grid).columns(np.arange(10))
    assert (np.diag(c.value) == 0).all()
    assert (np.diag(c.bound) > 1).all()


def test_a_failure_is_a_nan_and_not_an_exception() -> None:
    primal = Raising(lambda x: np.array([x[0] ** 3, x[1]]), [1.0, 1.0])
    oracle = Differences(primal)
    c = oracle.columns(np.arange(2), "thorough")
    assert (np.abs(c.value - np.diag([3.0, 1.0])) <= c.bound).all()
    primal.limit = -1.0
    c = Differences(primal).columns(np.arange(2), "quick")
    assert (c.code == Code.DOMAIN).all()
    assert np.isnan(c.value).all()
    e = Differences(primal).direction(np.ones(2), "thorough")
    assert (e.code == Code.DOMAIN).all()


@pytest.mark.parametrize("plan", PLANS)
def test_near_the_edge_of_an_unknown_domain(plan: str) -> None:
    x = np.array([1e-7, 1e-4, 0.5, 1.0, 2.0, 0.3, 0.7, 1.3])
    c = Differences(Plain(np.log, x)).columns(np.arange(8), plan)
    assert (c.code == Code.OK).all()
    assert (np.abs(c.value - np.diag(1 / x)) <= c.bound).all()
    assert (np.diag(c.bound) < 0.01 / x).all()


def test_kinks_are_named_with_both_slopes() -> None:
    oracle = Differences(Plain(np.abs, [0.0, 1.0, -1.0]))
    c = oracle.columns(np.arange(3), "thorough")
    assert c.code.diagonal().tolist() == [Code.KINK, Code.OK, Code.OK]
    assert c.left[0, 0] == pytest.approx(-1.0)
    assert c.right[0, 0] == pytest.approx(1.0)


def test_noise_is_pooled_and_larger_steps_are_tried() -> None:
    rng = np.random.default_rng(0)

    def noisy(x: np.ndarray) -> np.ndarray:
        return np.sin(x) + 1e-6 * rng.standard_normal(len(x))

    x = np.linspace(0.5, 2, 30)
    c = Differences(Plain(noisy, x)).columns(np.arange(30))
    assert (np.abs(c.value - np.diag(np.cos(x))) <= c.bound).all()
    assert np.median(np.diag(c.bound)) < 5e-3


@given(st.integers(0, 10**6), st.sampled_from(PLANS))
@settings(max_examples=20)
def test_complex_is_pairs_of_reals(seed: int, plan: str) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=2) + 1j * rng.normal(size=2)
    w = rng.normal(size=2) + 1j * rng.normal(size=2)

    class Complex(Primal):
        domain = Space.of([Leaf("z", (2,), is_complex=True)])
        codomain = Space.of([Leaf("w", (2,), is_complex=True)])
        point = np.ascontiguousarray(z).view(np.float64)

        def value(self, x: np.ndarray) -> Reply:
            y = np.sin(w * np.ascontiguousarray(x).view(np.complex128))
            return Reply(y.view(np.float64).copy())

    c = Differences(Complex()).columns(np.arange(4), plan)
    slope = w * np.cos(w * z)
    true = np.zeros((4, 4))
    for i, s in enumerate(slope):
        block = [[s.real, -s.imag], [s.imag, s.real]]
        true[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = block
    assert (np.abs(c.value - true) <= c.bound).all()


@given(st.integers(0, 10**6), st.sampled_from(PLANS))
@settings(max_examples=20)
def test_a_direction_is_the_sum_of_its_columns(seed: int, plan: str) -> None:
    rng = np.random.default_rng(seed)
    a, x = rng.normal(size=(3, 4)), rng.normal(size=4)
    oracle = Differences(Plain(lambda x: np.sin(a @ x) * np.exp(0.1 * x[:3]), x))
    u = oracle.scales() * rng.choice([-1.5, -1, 0.5, 1], 4)
    c, e = oracle.columns(np.arange(4), plan), oracle.direction(u, plan)
    assert (np.abs(c.value @ u - e.value) <= c.bound @ np.abs(u) + e.bound).all()
