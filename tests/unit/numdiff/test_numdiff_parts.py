"""The functionals, the difference table, the ladder."""

from __future__ import annotations

import numpy as np
import pytest

from gradproof.numdiff import noise, quick, sampling, stencil
from gradproof.numdiff.sampling import Counted, ladder

RATIOS = tuple(ladder(1.0, 2.0**-52).tolist())


@pytest.mark.parametrize("make", [stencil.odd, stencil.kink, stencil.side])
def test_functionals_are_exact_on_their_models(make) -> None:
    family = make(RATIOS)
    h = np.array(RATIOS)
    exponents, column, zero = {
        stencil.odd: ([1, 3, 5, 7, 9, 11], 0, False),
        stencil.kink: ([0, 1, 2, 4, 6, 8, 10], 1, True),
        stencil.side: (list(range(8)), 1, True),
    }[make]
    nodes = np.append(h, 0.0) if zero else h
    tried = 0
    for k in range(len(h)):
        for p, count in enumerate(family.terms):
            if not family.freedom[k, p]:
                assert np.isnan(family.slope[k, p]).all()
                continue
            tried += 1
            w = family.slope[k, p]
            assert (w[:k] == 0).all()
            for j, power in enumerate(exponents[:count]):
                terms = w * nodes**power
                scale = np.abs(terms).sum() + h[k] ** (power - 1)
                assert abs(terms.sum() - (j == column)) <= 1e-14 * scale
    assert tried > 60


def test_windows_keep_a_degree_of_freedom() -> None:
    family = stencil.odd(RATIOS)
    n = len(RATIOS)
    for k in range(n):
        for p in range(len(family.terms)):
            assert family.freedom[k, p] in (0, n - k - p - 1)


@pytest.mark.parametrize("sigma", [1e-9, 1.0])
def test_table_measures_noise_and_not_the_function(sigma: float) -> None:
    rng = np.random.default_rng(3)
    t = np.arange(9)[:, None] * 1e-3
    smooth = np.exp(t) * np.ones((1, 400))
    found = noise.table(smooth + sigma * rng.standard_normal((9, 400)))
    assert 0.8 * sigma < np.median(found) < 1.25 * sigma
    assert np.mean((found > sigma / 3) & (found < 3 * sigma)) > 0.97


def test_table_of_a_smooth_function_is_rounding() -> None:
    t = np.arange(9)[:, None] * 1e-6
    assert noise.table(np.exp(t))[0] < 1e-15


def test_scatter_measures_rounding_that_a_table_takes_for_a_ramp() -> None:
    # A sum near 15 minus a constant: values are multiples of 2⁻⁴⁹, and at equal spacing
    # the multiple grows by 173.98 at each step.
    def f(t: np.ndarray) -> np.ndarray:
        return ((-4.784169829877467 + t) * 3.2519978374491334 + 15.5)[:, None]

    grain = np.spacing(4.784)
    equal = 107 * grain * np.arange(-4.0, 5.0)
    assert noise.table(f(equal))[0] < 2.0**-53
    irregular = grain * sampling.WIDE
    assert 2.0**-52 < noise.scatter(irregular, f(irregular))[0] < 2.0**-49


@pytest.mark.parametrize("sigma", [1e-9, 1.0])
def test_scatter_measures_noise(sigma: float) -> None:
    rng = np.random.default_rng(3)
    t = 1e-4 * sampling.WIDE
    values = np.exp(1e-3 * t)[:, None] + sigma * rng.standard_normal((9, 400))
    found = noise.scatter(t, values)
    assert 0.8 * sigma < np.median(found) < 1.25 * sigma
    assert np.mean((found > sigma / 3) & (found < 3 * sigma)) > 0.95


def test_table_says_nan_where_values_are() -> None:
    values = np.ones((9, 2))
    values[3, 1] = np.nan
    found = noise.table(values)
    assert found[0] == 0
    assert np.isnan(found[1])


@pytest.mark.parametrize("grain", [2.0**-52, 2.0**-23, 2.0**-7, 2.0**-3])
def test_ladder_is_exact_in_the_dtype_and_reaches_the_grain(grain: float) -> None:
    h = ladder(1.0, grain)
    assert h[0] == 1.0
    assert (np.diff(h) < 0).all()
    assert h[-1] <= 64 * grain
    assert (h / grain == np.round(h / grain)).all()
    mantissas = np.frexp(h)[0]
    assert set(mantissas.tolist()) <= {0.5, 0.75}
    assert len(h) <= 26


def test_values_are_asked_once() -> None:
    asked = []

    def phi(t: float) -> np.ndarray:
        asked.append(t)
        return np.array([t])

    counted = Counted(phi, np.array([0.0]))
    counted(0.0), counted(1.0), counted(1.0)
    assert asked == [1.0]
    assert counted.evaluations == 1


@pytest.mark.parametrize(
    ("unit", "ratio"), [(2.0**-53, 2.0**-16), (2.0**-24, 2.0**-6), (2.0**-8, 2.0**-2)]
)
def test_quick_step_balances_truncation_and_rounding(unit: float, ratio: float) -> None:
    assert quick.step_ratio(unit) == ratio


def test_a_single_kink_stays_within_the_quick_bound_at_any_distance() -> None:
    away = np.concatenate([np.linspace(0.001, 3, 600), -np.linspace(0.001, 3, 600)])

    def f(t: float) -> np.ndarray:
        return np.abs(t - away) + 0.3 * t

    steps = tuple(np.array([s]) for s in (1.0, -1.0, 2.0, -2.0))
    values = tuple(f(float(s[0])) for s in steps)
    answer = quick.central(steps, values, f(0.0), 2.0**-53, 2.0**-52)
    true = 0.3 - np.sign(away)
    assert (np.abs(answer.value - true) <= answer.bound).all()


def test_a_single_jump_stays_within_the_quick_bound_at_any_distance() -> None:
    away = np.concatenate([np.linspace(0.001, 3, 600), -np.linspace(0.001, 3, 600)])

    def f(t: float) -> np.ndarray:
        return np.where(t > away, 1.0, 0.0) + 0.3 * t

    steps = tuple(np.array([s]) for s in (1.0, -1.0, 2.0, -2.0))
    values = tuple(f(float(s[0])) for s in steps)
    answer = quick.central(steps, values, f(0.0), 2.0**-53, 2.0**-52)
    assert (np.abs(answer.value - 0.3) <= answer.bound).all()
