"""A lift is used where it is the same function, and only there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from primals import Function, Plain, jacobian

from gradproof.oracles import Differences, best
from gradproof.space import Leaf, Space

PRECISIONS = ["float32", "float16", "bfloat16"]
WEIGHT = np.random.default_rng(1).normal(size=(12, 16))


def rounding(precision: str) -> Function:
    return lambda v: Space.of([Leaf("v", v.shape, precision)]).snap(v)


def softmax(r: Function) -> Function:
    def f(x: np.ndarray) -> np.ndarray:
        e = r(np.exp(r(x - x.max())))
        return r(e / r(np.atleast_1d(e.sum())))

    return f


def layer_norm(r: Function) -> Function:
    def f(x: np.ndarray) -> np.ndarray:
        d = r(x - r(np.atleast_1d(x.mean())))
        return r(d / r(np.sqrt(r(np.atleast_1d(np.mean(d * d) + 1e-5)))))

    return f


def perceptron(r: Function) -> Function:
    return lambda x: r(np.tanh(r(r(WEIGHT.ravel()).reshape(WEIGHT.shape) @ x)))


def total(r: Function) -> Function:
    def f(x: np.ndarray) -> np.ndarray:
        out = np.zeros(1)
        for v in x:
            out = r(out + v * v)
        return out

    return f


OPERATORS = [softmax, layer_norm, perceptron, total]


def of(make: Callable[[Function], Function], precision: str, seed: int) -> Plain:
    x = np.random.default_rng(seed).normal(size=16)
    return Plain(make(rounding(precision)), x, precision, wide=make(lambda v: v))


@pytest.mark.parametrize("make", OPERATORS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_same_function_is_lifted(
    make: Callable[[Function], Function], precision: str
) -> None:
    lifted = [best(of(make, precision, seed)) for seed in range(5)]
    assert all(oracle.lifted for oracle in lifted)
    oracle = lifted[0]
    assert oracle.method == "central difference, lifted to float64"
    c = oracle.columns(np.arange(16))
    exact = make(lambda v: v)
    for j in range(16):
        h = 1e-5
        up, down = oracle.point.copy(), oracle.point.copy()
        up[j] += h
        down[j] -= h
        near = (exact(up) - exact(down)) / (2 * h)
        assert (np.abs(c.value[:, j] - near) <= c.bound[:, j] + 1e-8).all()
    assert np.median(c.bound) < 1e-7


@pytest.mark.parametrize("make", OPERATORS)
@pytest.mark.parametrize(("precision", "factor"), [
    ("float32", 1.0001), ("float16", 1.1), ("bfloat16", 1.2),
])  # fmt: skip
def test_another_function_is_not(
    make: Callable[[Function], Function], precision: str, factor: float
) -> None:
    exact = make(lambda v: v)
    for wrong in (
        lambda x: factor * exact(x),
        lambda x: exact(x) + 0.5 * (1 + np.abs(exact(x))),
        lambda x: exact(1.2 * x) * np.where(np.arange(len(exact(x))) == 0, 1.3, 1),
    ):
        for seed in range(3):
            primal = of(make, precision, seed)
            primal.wide = wrong
            oracle = best(primal)
            assert not oracle.lifted
            assert oracle.method == "central difference"


def test_one_output_that_differs_is_enough() -> None:
    for precision in PRECISIONS:
        primal = of(perceptron, precision, 0)
        exact = perceptron(lambda v: v)
        primal.wide = lambda x, exact=exact: exact(x) + np.eye(12)[3] * 0.6
        assert not best(primal).lifted


def test_a_small_output_is_held_to_its_own_size() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        return np.array([1e4 * np.sin(x[0]), 1e-2 * np.sin(x[1])])

    primal = Plain(f, [0.5, 0.7], "float32", wide=f)
    assert best(primal).lifted
    primal.wide = lambda x: f(x) * np.array([1, 2])
    assert not best(primal).lifted


def test_a_function_that_agrees_at_the_point_alone_is_not_lifted() -> None:
    x = np.array([0.5, 0.75])
    primal = Plain(lambda x: x * x, x, "float32", wide=lambda v: x * x)
    assert not best(primal).lifted
    primal.wide = lambda v: x * x + 2 * x * (v - x)
    assert not best(primal).lifted


def test_a_lift_that_fails_or_has_another_size_is_not_used() -> None:
    primal = Plain(lambda x: x * x, [0.5, 0.75], "float32")
    for wrong in (lambda x: np.full(2, np.nan), lambda x: x[:1]):
        primal.wide = wrong
        assert not best(primal).lifted


def test_float64_without_a_lift_is_its_own() -> None:
    oracle = best(Plain(np.sin, [0.5, 0.75]))
    assert not oracle.lifted
    assert isinstance(oracle, Differences)


def test_float64_that_computes_in_float32_is_lifted() -> None:
    def inside(x: np.ndarray) -> np.ndarray:
        return np.sin(x.astype(np.float32)).astype(float)

    primal = Plain(inside, [0.5, 0.75, 1.3], wide=np.sin)
    oracle = best(primal)
    assert oracle.lifted
    c = oracle.columns(np.arange(3))
    assert (np.abs(c.value - jacobian(np.sin, primal.point)) <= c.bound).all()
    primal.wide = lambda x: 1.001 * np.sin(x)
    assert not best(primal).lifted


def test_evaluations_of_both_are_counted() -> None:
    primal = of(softmax, "float32", 0)
    assert best(primal).evaluations >= len(primal.asked) + 5


def test_another_point_may_be_given() -> None:
    primal = of(softmax, "float32", 0)
    x = primal.point + 0.25
    oracle = best(primal, x)
    assert (oracle.point == primal.domain.snap(x)).all()
