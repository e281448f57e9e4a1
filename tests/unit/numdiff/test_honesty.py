"""The benchmark that calibrates the bars, on a few hundred of its pairs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "honesty.py"


@pytest.fixture(scope="module")
def honesty() -> ModuleType:
    spec = importlib.util.spec_from_file_location("honesty", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["honesty"] = module
    spec.loader.exec_module(module)
    return module


def test_truths_are_derivatives(honesty: ModuleType) -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        g = honesty.Smooth.draw(rng)
        x = np.longdouble(rng.uniform(-2, 2))
        h = np.longdouble(2.0**-18)
        near = (8 * (g(x + h) - g(x - h)) - g(x + 2 * h) + g(x - 2 * h)) / (12 * h)
        scale = 1 + abs(g(x)) + abs(g.slope(x))
        assert abs(near - g.slope(x)) < 1e-11 * scale


@pytest.mark.parametrize("plan", ["quick", "thorough"])
def test_bars_and_bounds_hold(honesty: ModuleType, plan: str) -> None:
    with np.errstate(all="ignore"):
        found = honesty.measure(plan, 40, seed=2)
    assert len(found) >= 9
    assert honesty.failures(found, undecided=0.1) == []


def test_a_broken_promise_is_noticed(honesty: ModuleType) -> None:
    rng = np.random.default_rng(1)
    pairs = [honesty.draw("clean", rng) for _ in range(40)]
    results = [honesty.ours(p, "quick") for p in pairs]
    padded = [
        honesty.Result(r.value + 2 * r.bound, r.bar, r.bound, r.undecided, r.calls)
        for r in results
    ]
    broken = honesty.failures({"clean": honesty.tally(pairs, padded)})
    assert any("bounds exceeded" in line for line in broken)
    assert any("bars exceeded" in line for line in broken)
