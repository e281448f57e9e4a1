"""What the forward does between calls never escapes, and never becomes a number."""

from __future__ import annotations

import time

import numpy as np
import pytest

import gradproof
from gradproof import Verdict
from gradproof.proof import comparing

X = np.array([0.4, 1.3, -0.7])


def _raise(kind):
    raise kind("no luck")


BAD = {
    "raises": lambda y: _raise(ValueError),
    "divides by zero": lambda y: _raise(ZeroDivisionError),
    "runs out of memory": lambda y: _raise(MemoryError),
    "recurses for ever": lambda y: _raise(RecursionError),
    "is NaN": lambda y: y * np.nan,
    "is infinite": lambda y: y * np.inf + 1e308,
    "is infinite in part": lambda y: np.where(np.arange(y.size) == 1, np.inf, y),
    "has another shape": lambda y: y[:1],
    "is None": lambda y: None,
    "is text": lambda y: "nothing",
}


def right(block):
    """Every number that is given as an answer is one."""
    known = block.code == 0
    truth = np.diag(np.cos(X))
    assert np.isfinite(block.value[known]).all()
    assert (np.abs(block.value - truth)[known] <= block.bound[known] + 1e-15).all()


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("side", ["above", "near, above", "both"])
def test_a_failure_beside_the_point_is_no_number(name, side):
    reach = {"above": 0.05, "near, above": 1e-7, "both": 1e-3}[side]

    def f(x):
        off = x - X if side != "both" else np.abs(x - X)
        return BAD[name](np.sin(x)) if (off > reach).any() else np.sin(x)

    report = gradproof.check(f, X, vjp=lambda g, x: g * np.cos(x))
    assert report.verdict is not Verdict.FAIL, str(report)
    right(report.record.evidence.block)
    wrong = gradproof.check(f, X, vjp=lambda g, x: g * 1.5 * np.cos(x))
    assert wrong.verdict is not Verdict.PASS, str(wrong)


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("every", [2, 5, 17])
def test_a_failure_now_and_then_is_no_number(name, every):
    calls = [0]

    def f(x):
        calls[0] += 1
        if calls[0] > 2 and calls[0] % every == 0:
            return BAD[name](np.sin(x))
        return np.sin(x)

    report = gradproof.check(f, X, vjp=lambda g, x: g * np.cos(x), ways=False)
    assert report.verdict is not Verdict.FAIL, str(report)
    if report.record.evidence.block is not None:
        right(report.record.evidence.block)


def test_the_user_can_still_interrupt():
    def f(x):
        if (x != X).any():
            raise KeyboardInterrupt
        return np.sin(x)

    with pytest.raises(KeyboardInterrupt):
        gradproof.check(f, X, vjp=lambda g, x: g * np.cos(x))


def test_the_plan_is_made_of_a_measured_call_and_told_with_its_estimate(monkeypatch):
    told = []
    monkeypatch.setattr(comparing, "LONG", 0.05)
    record = gradproof.check(
        lambda x: (time.sleep(0.005), np.sin(x))[1], X, vjp=lambda g, x: g * np.cos(x)
    ).record
    assert record.verdict is Verdict.PASS

    from gradproof.adapters import adapt
    from gradproof.proof import Options, prove

    def slow(x):
        time.sleep(0.01)
        return np.sin(x)

    rule = adapt(slow, (X,), vjp=lambda g, x: g * np.cos(x))
    prove(rule, Options(tell=lambda stage, share: told.append(stage)))
    [planned] = [stage for stage in told if "planned" in stage]
    assert planned.startswith("the gradient, about 0.")
    assert planned.endswith(" s as planned")


def test_a_call_that_becomes_slow_later_cuts_nothing():
    """The plan stands: what is compared does not hang on the clock."""
    compared = []
    for pause in (0.0, 0.01):
        calls = [0]

        def f(x, pause=pause, calls=calls):
            calls[0] += 1
            time.sleep(pause if calls[0] > 12 else 0.0)
            return np.sin(x)

        report = gradproof.check(f, X, vjp=lambda g, x: g * np.cos(x))
        compared.append((report.record.compared, report.detection_limit))
    assert compared[0] == compared[1]
