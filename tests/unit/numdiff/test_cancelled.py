"""Small values that are differences of large ones: their noise is that of the large."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradproof.numdiff import differentiate
from gradproof.verdict import Code


def upper_tail(z: float) -> float:
    """Half of 1 − erf, whose values lie on a grid of 2⁻⁵⁴ however small they are."""
    return 0.5 * (1.0 - math.erf(z / math.sqrt(2.0)))


def naive_softplus(z: float) -> float:
    return float(np.log(np.float64(1.0) + np.exp(z)))


CASES = {
    "normal tail": (
        upper_tail,
        lambda z: -math.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    ),
    "log(1 + exp)": (
        lambda z: naive_softplus(-4 * z),
        lambda z: -4 / (1 + math.exp(4 * z)),
    ),
    "1 - cos": (lambda z: 1 - math.cos(z * 1e-3), lambda z: 1e-3 * math.sin(z * 1e-3)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("x", np.linspace(4.1, 6.3, 23))
def test_the_bound_holds(name: str, x: float) -> None:
    fn, slope = CASES[name]
    e = differentiate(
        lambda t: np.array([fn(x + t)]), reach=4.0, grain=math.ulp(x), unit=2.0**-53
    )
    if e.code[0] == Code.OK:
        assert abs(e.value[0] - slope(x)) <= e.bound[0]
        assert e.bound[0] <= 1.0
