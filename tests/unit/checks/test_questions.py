"""Each check against rules that must trip it and rules that must not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_rules import PlainPrimal, PlainRule

from gradproof.checks.history import history
from gradproof.checks.linearity import linearity
from gradproof.checks.overflow import overflow
from gradproof.checks.rounding import SAME, own_rounding, shake
from gradproof.checks.stopping import stopping

X = np.array([0.3, -1.2, 2.5])
RNG = np.random.default_rng


def lin(pull, precision="float64"):
    rule = PlainRule(np.sin, pull, X, precision)
    x = rule.primal.domain.snap(X)
    ybar, other = (rule.primal.codomain.draw(RNG(k)) for k in (1, 2))
    once = rule.vjp(x, ybar).value
    own = own_rounding(rule, x, ybar, once, RNG(3))
    return linearity(rule, x, ybar, once, own, other)


@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16"])
def test_a_linear_vjp_breaks_no_law(precision):
    assert lin(lambda x, y: y * np.cos(x), precision).broken() == ()
    assert lin(lambda x, y: y.sum() * np.cos(x), precision).broken() == ()


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("pull", "broken"),
    [
        (lambda x, y: np.cos(x), {"zero", "homogeneous", "additive"}),
        (lambda x, y: np.sign(y) * np.cos(x), {"homogeneous", "additive"}),
        (lambda x, y: np.clip(y, -1, 1) * np.cos(x), {"homogeneous", "additive"}),
        (lambda x, y: y * np.abs(y) * np.cos(x), {"homogeneous", "additive"}),
        (lambda x, y: y * np.cos(x) + 1e-2, {"zero", "homogeneous", "additive"}),
        (
            lambda x, y: y * np.cos(x) * (1 + (np.abs(y) > 300)),
            {"homogeneous"},
        ),
    ],
)
def test_a_nonlinear_vjp_is_seen(pull, broken, precision):
    assert set(lin(pull, precision).broken()) == broken


def test_entries_that_are_nan_say_nothing_of_linearity():
    def pull(x, y):
        return np.where(np.arange(3) == 1, np.nan, y * np.cos(x))

    assert lin(pull).broken() == ()


@given(st.integers(0, 1000))
def test_a_shake_moves_every_entry_by_one_number(seed):
    space = PlainPrimal(np.sin, X, "float32").domain
    x = space.snap(X)
    moved = shake(space, x, RNG(seed))
    assert (moved != x).all()
    assert (np.abs(moved - x) <= space.spacing(x)).all()


def test_own_rounding_covers_rounding_and_little_more():
    rule = PlainRule(np.sin, lambda x, y: y * np.cos(x), X, "float32")
    x = rule.primal.domain.snap(X)
    y = rule.primal.codomain.draw(RNG(0))
    got = rule.vjp(x, y).value
    own = own_rounding(rule, x, y, got, RNG(1))
    assert (np.abs(got - y * np.cos(x)) <= own).all()
    assert (own <= SAME["float32"] * np.abs(got).max()).all()


def test_a_function_has_no_history_and_a_warm_start_has():
    seen = []

    def warm(x):
        seen.append(x)
        return x**2 + 1e-3 * len(seen)

    still = PlainPrimal(np.sin, X)
    assert history(still, still.value(X).value, X + 1) == (0.0, 0)
    moving = PlainPrimal(warm, X)
    size, count = history(moving, moving.value(X).value, X + 1)
    assert count == 3
    assert 1e-4 < size < 1e-2


def test_values_that_are_nan_each_time_are_no_history():
    with np.errstate(all="ignore"):
        primal = PlainPrimal(np.log, X)
        assert history(primal, primal.value(X).value, X + 1) == (0.0, 0)


def naive_softplus(x):
    return np.log(1 + np.exp(x))


def native(fn, precision):
    """``fn`` with every step rounded to the precision, as a framework would."""
    kind = {"float64": np.float64, "float32": np.float32}[precision]
    return lambda x: fn(np.asarray(x, dtype=kind)).astype(np.float64)


class NativeRule(PlainRule):
    def __init__(self, fn, precision):
        self.native = fn
        with np.errstate(all="ignore"):
            super().__init__(native(fn, precision), lambda x, y: y, X, precision)

    def in_precision(self, precision):
        return NativeRule(self.native, precision)


@pytest.mark.parametrize(
    ("precision", "edge"), [("float32", 88.72), ("float64", 709.78)]
)
def test_a_forward_that_overflows_is_seen_where_it_does(precision, edge):
    seen = overflow(NativeRule(naive_softplus, precision))
    assert seen is not None
    assert seen.x == pytest.approx(edge, abs=0.01)
    assert seen.value == pytest.approx(edge, abs=0.01)
    assert seen.gave == "inf"


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(
    "fn",
    [
        np.exp,
        np.sinh,
        np.log,
        lambda x: np.sqrt(x - 20),
        lambda x: 1 / (x - 33.0),
        lambda x: np.logaddexp(x, 0),
        lambda x: x**3,
    ],
    ids=["exp", "sinh", "log", "sqrt", "pole", "logaddexp", "cube"],
)
def test_a_large_value_and_a_true_domain_are_no_overflow(fn, precision):
    assert overflow(NativeRule(fn, precision)) is None


def iterated(tol):
    """The fixed point of z = 0.7 sin(z) + x, stopped once a step is below ``tol``."""

    def fn(x):
        z = np.zeros_like(x)
        for _ in range(500):
            new = 0.7 * np.sin(z) + x
            if np.abs(new - z).max() < tol:
                return new
            z = new
        return z

    return fn


@pytest.mark.parametrize("tol", [1e-5, 1e-8])
@pytest.mark.parametrize("seed", range(3))
def test_a_forward_that_stops_early_jumps_by_about_its_tolerance(tol, seed):
    primal = PlainPrimal(iterated(tol), X)
    jumps = stopping(primal, np.full(3, 0.25), RNG(seed))
    assert 0 < jumps.max() < 10 * tol


@pytest.mark.parametrize(
    "fn",
    [np.sin, np.abs, lambda x: np.maximum(x, 0.2), lambda x: 1e9 + x, iterated(0.0)],
    ids=["smooth", "kink", "relu", "offset", "converged"],
)
def test_smooth_and_kinked_forwards_do_not_jump(fn):
    assert not stopping(PlainPrimal(fn, X), np.full(3, 0.25), RNG(0)).any()


def test_what_the_dtype_cannot_hold_breaks_no_law():
    def f(x):
        return np.expm1(x)

    rule = PlainRule(f, lambda x, y: y * np.exp(x), np.array([1.0, 9.25]), "float16")
    x = rule.primal.domain.snap(rule.primal.point)
    ybar, other = np.array([1.5, -1.25]), np.array([0.5, -0.75])
    once = rule.vjp(x, ybar).value
    own = own_rounding(rule, x, ybar, once, RNG(3))
    found = linearity(rule, x, ybar, once, own, other)
    assert np.isinf(rule.vjp(x, 16 * ybar).value).any()
    assert found.broken() == ()
