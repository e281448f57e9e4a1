"""Simulators that no one tuned: right adjoints are not accused, wrong ones are found."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import gradproof
from gradproof import Verdict

sys.path.insert(0, str(Path(__file__).parent))

from systems import SYSTEMS

INEXACT = {"inexact"}


def judged(name, factor=1.0, part=None, **more):
    forward, keyword, backward, x, options = SYSTEMS[name]

    def scaled(*args, **kwargs):
        out = factor * np.asarray(backward(*args, **kwargs))
        if part is not None:
            out[..., part] *= 1.1
        return out

    return gradproof.check(forward, x, **{keyword: scaled}, **{**options, **more})


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_right_adjoint_is_not_accused(name):
    report = judged(name)
    assert report.verdict is not Verdict.FAIL, str(report)
    assert {f.slug for f in report.findings if f.severity != "note"} <= INEXACT
    if report.verdict is Verdict.UNDECIDED:
        assert all(u.reason and u.detail for u in report.record.undecided)


@pytest.mark.parametrize("factor", [1.1, 0.9])
@pytest.mark.parametrize("name", SYSTEMS)
def test_ten_percent_off_is_found(name, factor):
    report = judged(name, factor)
    assert report.verdict is Verdict.FAIL, str(report)


@pytest.mark.parametrize("name", SYSTEMS)
def test_ten_percent_off_in_the_last_entry_does_not_pass(name):
    report = judged(name, part=-1)
    assert report.verdict is not Verdict.PASS, str(report)
    if report.verdict is Verdict.UNDECIDED:
        assert all(u.detail for u in report.record.undecided)


ALONE = ["adaptive ODE", "splitting stopped early"]


@pytest.mark.parametrize("name", ALONE)
def test_a_stop_within_a_tolerance_is_weighed_without_refine_too(name):
    report = judged(name, refine=None)
    assert report.verdict is not Verdict.FAIL, str(report)


def test_a_forward_that_remembers_is_undecided_until_reset():
    last = {}

    def relaxed(b):
        """Three sweeps from where the last call ended."""
        x = last.get("x", np.zeros_like(b))
        for _ in range(3):
            x = 0.5 * x + 0.5 * np.cos(b * x)
        last["x"] = x
        return x

    def jacobian(b):
        x, d = np.zeros_like(b), np.zeros_like(b)
        for _ in range(3):
            s = np.sin(b * x)
            x, d = 0.5 * x + 0.5 * np.cos(b * x), 0.5 * d - 0.5 * s * (x + b * d)
        return np.diag(d)

    b = np.array([0.5, 1.25])
    alone = gradproof.check(relaxed, b, jacobian=jacobian)
    assert alone.verdict is not Verdict.PASS
    assert "stateful-forward" in {u.reason for u in alone.record.undecided} | {
        f.slug for f in alone.findings
    }
    cleared = gradproof.check(relaxed, b, jacobian=jacobian, reset=last.clear)
    assert cleared.verdict is Verdict.PASS, str(cleared)
    wrong = gradproof.check(
        relaxed, b, jacobian=lambda b: 1.1 * jacobian(b), reset=last.clear
    )
    assert wrong.verdict is Verdict.FAIL


def test_a_far_overflow_of_the_forward_is_no_warning_of_ours():
    def f(x):
        return np.exp(x**3)

    report = gradproof.check(
        f, np.array([6.0]), vjp=lambda g, x: g * 3 * x**2 * np.exp(x**3)
    )
    assert report.verdict is Verdict.PASS, str(report)
