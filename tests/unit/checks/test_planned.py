"""What slow forwards are asked is planned from a measured call, and said."""

import numpy as np
import pytest
from plain_rules import PlainPrimal, PlainRule

import gradproof
from gradproof import Verdict
from gradproof.checks import confirming, gradient, stopping
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
    some, left = confirming.confirmed(oracle, off, 3)
    assert left == 4
    assert not some.wrong.any()
    assert (some.code == Code.UNMEASURED).sum() == 4
    every, left = confirming.confirmed(oracle, off)
    assert left == 0
    assert not every.wrong.any()
    assert (every.code == Code.OK).all()


def test_batch_after_batch_is_confirmed_until_one_is_wrong(monkeypatch):
    monkeypatch.setattr(confirming, "CONFIRMED_COLUMNS", 2)
    rule = PlainRule(np.sin, lambda x, y: y * np.cos(x), X)
    oracle = Differences(rule.primal)
    implied, own = gradient.implied_rows(rule, X, np.arange(7), RNG(1))
    block = gradient.measured(oracle, np.arange(7), np.arange(7), implied, own, "quick")
    off = gradient.replace(block, value=block.value + 0.5 * np.eye(7))
    every, left = confirming.confirmed(oracle, off, 2)
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


def counting(rule):
    """The rule, an oracle, its quick block, and which columns are asked thoroughly."""
    oracle = Differences(rule.primal)
    n = rule.primal.domain.size
    implied, own = gradient.implied_rows(rule, rule.primal.point, np.arange(n), RNG(1))
    block = gradient.measured(oracle, np.arange(n), np.arange(n), implied, own, "quick")
    asked, columns = [], oracle.columns

    def noted(cols, plan="quick"):
        asked.extend(cols.tolist())
        return columns(cols, plan)

    oracle.columns = noted
    return oracle, block, asked


MANY = np.linspace(0.3, 2.5, 24)


def test_few_columns_stand_for_all_that_are_wrong():
    rule = PlainRule(np.sin, lambda x, y: 1.1 * y * np.cos(x), MANY)
    oracle, block, asked = counting(rule)
    found, left = confirming.confirmed(oracle, block)
    assert len(asked) == confirming.STANDING
    assert len(set(asked)) == confirming.STANDING
    assert found.wrong.diagonal().all()
    assert left == 0


def test_they_stand_for_none_where_one_of_them_is_right():
    """The quick answers of all columns are off, and those of the first half wrong."""
    right = np.arange(24) >= 12
    rule = PlainRule(
        np.sin, lambda x, y: np.where(right, 1.0, 1.1) * y * np.cos(x), MANY
    )
    oracle, block, asked = counting(rule)
    off = gradient.replace(block, value=block.value + 0.5 * np.eye(24))
    assert off.wrong.diagonal().all()
    found, _ = confirming.confirmed(oracle, off)
    assert sorted(asked) == list(range(24))
    assert (found.wrong.diagonal() == ~right).all()


def test_they_stand_for_none_where_their_quick_answers_were_off():
    """Each is wrong, but what the quick answers say of the others is not to be had."""
    some = np.arange(24) % 3 > 0
    rule = PlainRule(
        np.sin, lambda x, y: np.where(some, 1.1, 1.0) * y * np.cos(x), MANY
    )
    oracle, block, asked = counting(rule)
    shift = np.where(np.arange(24) % 3 == 1, 0.7, 0.1)
    off = gradient.replace(block, value=block.value - np.diag(shift))
    found, _ = confirming.confirmed(oracle, off)
    assert sorted(asked) == list(range(24))
    assert (found.wrong.diagonal() == some).all()


class InOneGo(PlainRule):
    """Its rows are rounded otherwise where they are asked for in one go."""

    def rows(self, x, rows):
        return np.diag(1.1 * np.cos(x))[rows] * (1 + 1e-10)


def test_rows_in_one_go_are_held_against_rows_in_one_go():
    one = PlainRule(np.sin, lambda x, y: 1.1 * y * np.cos(x), MANY)
    go = InOneGo(np.sin, lambda x, y: 1.1 * y * np.cos(x), MANY)
    singly, together = (
        gradient.implied_rows(r, MANY, np.arange(24), RNG(1))[1] for r in (one, go)
    )
    assert together.max() <= 4 * singly.max()
