"""Laws that hold for every function, tried on drawn ones."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import polynomial

from gradproof.numdiff import differentiate
from gradproof.space import unit
from gradproof.verdict import Code

DOUBLE = {"reach": 1.0, "grain": 2.0**-52, "unit": 2.0**-53}
PLANS = st.sampled_from(["quick", "thorough"])
COEFFICIENT = st.integers(-64, 64).map(lambda n: n / 16)
POLYNOMIAL = st.lists(COEFFICIENT, min_size=2, max_size=9)


def smooth(seed: int, m: int = 3):
    """A smooth function of t with m outputs, and its derivative at 0."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=m), rng.uniform(0.5, 2, m), rng.uniform(-1, 1, m)
    return (lambda t: a * np.sin(b * t + c) + c * t * t), a * b * np.cos(c)


@given(POLYNOMIAL)
def test_thorough_is_exact_on_polynomials(coefficients: list[float]) -> None:
    e = differentiate(
        lambda t: np.array([polynomial.polyval(t, coefficients)]), **DOUBLE
    )
    size = np.abs(coefficients).sum()
    assert e.code[0] == Code.OK
    assert abs(e.value[0] - coefficients[1]) <= e.bound[0]
    assert abs(e.value[0] - coefficients[1]) <= 1e-11 * size


@given(st.lists(COEFFICIENT, min_size=2, max_size=5))
def test_quick_is_exact_up_to_degree_four(coefficients: list[float]) -> None:
    # Steps of a sixteenth at a unit of 2⁻¹⁵ and dyadic values: no rounding at all.
    e = differentiate(
        lambda t: np.array([polynomial.polyval(t, coefficients)]),
        reach=1.0, grain=2.0**-20, unit=2.0**-18, plan="quick",
    )  # fmt: skip
    assert e.steps == (2.0**-4, 2.0**-3)
    assert e.value[0] == pytest.approx(coefficients[1], abs=1e-13)


@given(st.integers(0, 10**6), st.integers(0, 10**6), COEFFICIENT, COEFFICIENT, PLANS)
@settings(max_examples=40)
def test_linear_in_the_function(
    s1: int, s2: int, a: float, b: float, plan: str
) -> None:
    (f, _), (g, _) = smooth(s1), smooth(s2)
    ef, eg = (differentiate(h, **DOUBLE, plan=plan) for h in (f, g))
    both = differentiate(lambda t: a * f(t) + b * g(t), **DOUBLE, plan=plan)
    room = abs(a) * ef.bound + abs(b) * eg.bound + both.bound
    assert (np.abs(both.value - a * ef.value - b * eg.value) <= room).all()


@given(st.integers(0, 10**6), st.integers(-40, 40), st.integers(-40, 40), PLANS)
@settings(max_examples=40)
def test_powers_of_two_change_nothing(
    seed: int, of_t: int, of_f: int, plan: str
) -> None:
    f, _ = smooth(seed)
    t, y = 2.0**of_t, 2.0**of_f
    plain = differentiate(f, **DOUBLE, plan=plan)
    scaled = differentiate(
        lambda s: y * f(s / t), reach=t, grain=t * 2.0**-52, unit=2.0**-53, plan=plan
    )
    assert (scaled.value == plain.value * (y / t)).all()
    assert scaled.bound == pytest.approx(plain.bound * (y / t), rel=1e-12)
    assert scaled.bar == pytest.approx(plain.bar * (y / t), rel=1e-12)
    assert (scaled.code == plain.code).all()


@given(st.integers(0, 10**6), PLANS)
@settings(max_examples=40)
def test_the_bar_holds_and_shrinks_with_precision(seed: int, plan: str) -> None:
    f, true = smooth(seed, 8)
    rng = np.random.default_rng(seed)

    def rounded(t: float, u: float) -> np.ndarray:
        v = f(t)
        return v * (1 + u * rng.uniform(-1, 1, v.shape))

    bars = []
    for precision in ("bfloat16", "float16", "float32", "float64"):
        u = unit(precision)
        e = differentiate(
            partial(rounded, u=u), reach=1.0, grain=2 * u, unit=u, plan=plan
        )
        assert (np.abs(e.value - true) <= e.bound).all()
        bars.append(np.median(e.bar))
    assert bars == sorted(bars, reverse=True)
    assert bars[-1] < 1e-6 * bars[0]


@given(st.integers(0, 10**6), st.floats(-12, -3))
@settings(max_examples=40)
def test_noise_is_measured_within_a_factor_of_three(seed: int, exponent: float) -> None:
    f, true = smooth(seed, 24)
    sigma, rng = 10.0**exponent, np.random.default_rng(seed)
    e = differentiate(lambda t: f(t) + sigma * rng.standard_normal(24), **DOUBLE)
    assert sigma / 3 <= np.median(e.noise) <= 3 * sigma
    assert np.mean((e.noise >= sigma / 3) & (e.noise <= 3 * sigma)) >= 0.9
    assert (np.abs(e.value - true) <= e.bound).all()


@given(st.integers(0, 10**6), st.floats(-9, -1), st.sampled_from([-1.0, 1.0]), PLANS)
def test_near_a_kink_the_bound_holds(
    seed: int, exponent: float, side: float, plan: str
) -> None:
    f, true = smooth(seed)
    away = side * 10.0**exponent
    e = differentiate(lambda t: f(t) + np.abs(t - away), **DOUBLE, plan=plan)
    answered = e.code == Code.OK
    assert (np.abs(e.value - (true - side)) <= e.bound)[answered].all()
    if plan == "thorough":
        assert answered.all()


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_deterministic(seed: int) -> None:
    f, _ = smooth(seed)
    a, b = differentiate(f, **DOUBLE), differentiate(f, **DOUBLE)
    assert (a.value == b.value).all()
    assert (a.bound == b.bound).all()
