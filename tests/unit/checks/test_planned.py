"""What slow forwards are asked is planned from a measured call, and said."""

import numpy as np
import pytest
from plain_rules import PlainPrimal, PlainRule

import gradproof
from gradproof import Verdict
from gradproof.checks import gradient, stopping
from gradproof.oracles import Differences
from gradproof.proof import comparing
from gradproof.verdict import Code

X = np.linspace(0.3, 2.5, 7)
RNG = np.random.default_rng


def compared(factor, seconds, rough=0.0):
    """sin, its gradient off by ``factor``, where a call is said to take a second."""

    def fn(x):
        return np.sin(x) + rough * np.sin(3e5 * x)

    rule = PlainRule(fn, lambda x, y: factor * y * np.cos(x), X)
    oracle = Differences(rule.primal)
    ybar = rule.primal.codomain.draw(RNG(0))
    return gradient.whole(rule, oracle, X, ybar, RNG(1), (1.0, seconds))


def test_as_many_columns_are_confirmed_as_the_plan_allows():
    found = compared(1.1, 3.5 * gradient.THOROUGH)
    assert found.wrong
    assert found.short == (
        "measuring a column of the Jacobian thoroughly takes about 64 s, so 3 of the 7 "
        "suspicious ones were; a larger budget= allows more",
    )


def test_with_time_enough_nothing_is_left_out():
    assert compared(1.1, np.inf).short == ()
    assert compared(1.0, 0.0).short == ()


def test_what_was_not_confirmed_has_no_answer_where_nothing_confirmed_is_wrong(
    monkeypatch,
):
    """Quick answers may be off; thorough ones that agree clear their columns."""
    rule = PlainRule(np.sin, lambda x, y: y * np.cos(x), X)
    oracle = Differences(rule.primal)
    implied, own = gradient.implied_rows(rule, X, np.arange(7), RNG(1))
    block = gradient.measured(oracle, np.arange(7), np.arange(7), implied, own, "quick")
    off = gradient.replace(block, value=block.value + 0.5 * np.eye(7))
    assert off.wrong.any(axis=0).all()
    some, left = gradient.confirmed(oracle, off, 3)
    assert left == 4
    assert not some.wrong.any()
    assert (some.code == Code.UNMEASURED).sum() == 4
    every, left = gradient.confirmed(oracle, off)
    assert left == 0
    assert not every.wrong.any()
    assert (every.code == Code.OK).all()


def test_batch_after_batch_is_confirmed_until_one_is_wrong(monkeypatch):
    monkeypatch.setattr(gradient, "CONFIRMED_COLUMNS", 2)
    rule = PlainRule(np.sin, lambda x, y: y * np.cos(x), X)
    oracle = Differences(rule.primal)
    implied, own = gradient.implied_rows(rule, X, np.arange(7), RNG(1))
    block = gradient.measured(oracle, np.arange(7), np.arange(7), implied, own, "quick")
    off = gradient.replace(block, value=block.value + 0.5 * np.eye(7))
    every, left = gradient.confirmed(oracle, off, 2)
    assert (every.code == Code.OK).all()
    assert not every.wrong.any()
    assert left == 0


def test_no_line_is_walked_where_the_plan_allows_too_few_points():
    primal = PlainPrimal(np.sin, X)
    assert stopping.stopping(primal, np.full(7, 0.25), RNG(0), 1e-6) is None
    assert stopping.stopping(primal, np.full(7, 0.25), RNG(0), 60.0) is not None


@pytest.mark.parametrize("budget", [None, 1e-6])
def test_a_small_mismatch_of_a_forward_too_slow_to_walk_is_undecided(
    budget, monkeypatch
):
    if budget is not None:
        monkeypatch.setattr(comparing, "WALKING", budget)

    def f(x):
        return np.sin(x).sum()

    report = gradproof.check(f, X, gradient=lambda x: 1.004 * np.cos(x))
    if budget is None:
        assert report.verdict is Verdict.FAIL
        return
    assert report.verdict is Verdict.UNDECIDED, str(report)
    [open_] = report.record.undecided
    assert open_.reason == "inexact"
    assert open_.detail == (
        "the gradient is 4.0e-03 off, as that of a solver may be which stops early, and "
        "the forward is too slow to look for where it stops"
    )
    assert open_.decide == (
        "refine= with settings that make the forward more exact, or a larger budget="
    )
    large = gradproof.check(f, X, gradient=lambda x: 1.1 * np.cos(x))
    assert large.verdict is Verdict.FAIL
