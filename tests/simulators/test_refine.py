"""refine=: a mismatch that shrinks is inexactness, one that stays is a mistake."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradproof
from gradproof import UsageError, Verdict

A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.75], [0.5, 0.75, 5.0]])
B = np.array([1.0, 2.0, 3.0])


def solve(b, tol=1e-3):
    """Richardson's iteration for A x = b, stopped early; and the cube of x."""
    x = np.zeros(3)
    while np.linalg.norm(A @ x - b) > tol * np.linalg.norm(b):
        x = x + 0.15 * (b - A @ x)
    return x**3


def adjoint(factor=1.0):
    def vjp(ybar, b):
        x = np.linalg.solve(A, b)
        return factor * np.linalg.solve(A.T, 3 * x**2 * ybar)

    return vjp


def euler(p, n=20):
    y = p[0]
    for _ in range(n):
        y = y - p[1] * y * y / n
    return y


def continuous(factor=1.0):
    def gradient(p):
        d = 1 + p[0] * p[1]
        return factor * np.array([1.0, -(p[0] ** 2)]) / d**2

    return gradient


P = np.array([1.5, 0.75])


def test_a_mismatch_that_shrinks_with_the_tolerance_is_inexact():
    report = gradproof.check(
        solve, B, vjp=adjoint(), refine={"tol": [1e-3, 1e-5, 1e-8]}
    )
    assert report.verdict is Verdict.PASS, str(report)
    [finding] = report.findings
    assert finding.slug == "inexact"
    assert finding.severity == "warning"
    assert [line.partition(":")[0] for line in finding.evidence] == [
        "tol=0.001", "tol=1e-05", "tol=1e-08",
    ]  # fmt: skip
    assert all(" off by " in line for line in finding.evidence)
    assert finding.evidence[0].endswith(" of the largest entry")
    assert (
        "the limits are those at tol=1e-08, the tightest setting of refine="
        in report.record.notes
    )
    settings = [e for e in report.record.evidence.elsewhere if e.kind == "refine"]
    assert [e.setting for e in settings] == ["tol=0.001", "tol=1e-05", "tol=1e-08"]


@pytest.mark.parametrize("factor", [1.1, 0.9, 1.002])
def test_a_mistake_stays(factor):
    report = gradproof.check(
        solve, B, vjp=adjoint(factor), refine={"tol": [1e-3, 1e-5, 1e-8]}
    )
    assert report.verdict is Verdict.FAIL
    [note] = [n for n in report.record.notes if n.startswith("over refine=")]
    assert note.startswith("over refine= the mismatch stays: ")
    assert " at tol=0.001, " in note


def test_a_mistake_hidden_by_the_looseness_of_the_setting_given_is_found():
    """At the setting given the inexactness cancels most of the mistake."""

    def given(p, n=400):
        return euler(p, n)

    loose = gradproof.check(given, P, gradient=continuous())
    at_loose = loose.jacobians["out", "p"]
    cancelling = np.median(at_loose.numerical / at_loose.implied)
    report = gradproof.check(
        given, P, gradient=continuous(cancelling), refine={"n": [400, 1600, 6400]}
    )
    assert report.verdict is Verdict.FAIL


def test_a_continuous_adjoint_shrinks_with_the_step_and_never_vanishes():
    report = gradproof.check(
        euler, P, gradient=continuous(), refine={"n": [20, 40, 80]}
    )
    assert report.verdict is Verdict.PASS, str(report)
    assert [f.slug for f in report.findings] == ["inexact"]
    shuffled = gradproof.check(
        euler, P, gradient=continuous(), refine={"n": [80, 20, 40]}
    )
    assert shuffled.verdict is Verdict.PASS, str(shuffled)
    uneven = gradproof.check(
        euler, P, gradient=continuous(), refine={"n": [10, 20, 30]}
    )
    assert uneven.verdict is not Verdict.FAIL, str(uneven)


@pytest.mark.parametrize("factor", [1.1, 0.9])
def test_a_wrong_continuous_adjoint_stays(factor):
    report = gradproof.check(
        euler, P, gradient=continuous(factor), refine={"n": [20, 40, 80]}
    )
    assert report.verdict is Verdict.FAIL


def test_resolve_is_honoured_where_the_inexactness_hides_more():
    report = gradproof.check(
        euler, P, gradient=continuous(), refine={"n": [20, 40, 80]}, resolve=1e-3
    )
    assert report.verdict is Verdict.UNDECIDED


def test_two_settings_that_leave_it_open_are_undecided():
    report = gradproof.check(euler, P, gradient=continuous(), refine={"n": [20, 40]})
    assert report.verdict is Verdict.UNDECIDED
    [open_] = report.record.undecided
    assert open_.reason == "inexact"
    assert "over refine=, and it cannot be told whether it would vanish" in open_.detail
    assert open_.decide == "one more setting at the tight end of refine="
    allowed = gradproof.check(
        euler, P, gradient=continuous(), refine={"n": [20, 40]}, allow="inexact"
    )
    assert allowed.verdict is not Verdict.FAIL


def test_a_right_rule_keeps_its_verdict_and_its_sizes():
    def unrolled(ybar, p, n=20):
        y, path = p[0], [p[0]]
        for _ in range(n):
            y = y - p[1] * y * y / n
            path.append(y)
        g, slope = ybar, 0.0
        for y in reversed(path[:-1]):
            slope -= g * y * y / n
            g = g * (1 - 2 * p[1] * y / n)
        return np.array([g, slope])

    report = gradproof.check(euler, P, vjp=unrolled, refine={"n": [20, 40, 80]})
    assert report.verdict is Verdict.PASS
    assert report.findings == ()
    settings = [e for e in report.record.evidence.elsewhere if e.kind == "refine"]
    assert [e.setting for e in settings] == ["n=20", "n=40", "n=80"]
    assert all(e.note.startswith("off by ") for e in settings)


def test_a_forward_too_noisy_at_the_setting_given_is_compared_at_the_tightest():
    def noisy(x, noise=0.5):
        return np.sin(x) + noise * np.sin(1e9 * x)

    report = gradproof.check(
        noisy,
        np.array([0.4, 1.3]),
        jacobian=lambda x: np.diag(np.cos(x)),
        refine={"noise": [0.5, 1e-15]},
    )
    assert report.verdict is Verdict.PASS, str(report)
    assert (
        "compared at noise=1e-15: at the setting given the forward is too noisy"
        in report.record.notes
    )


class Root(torch.autograd.Function):
    """Heron's iteration; the derivative is that of the root."""

    @staticmethod
    def forward(ctx, a, steps=2):
        x = 0.5 * (a + 1)
        for _ in range(steps):
            x = 0.5 * (x + a / x)
        ctx.save_for_backward(a)
        return x

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return 0.5 * g / a.sqrt(), None


def test_a_function_takes_its_setting_by_position_or_by_default():
    a = torch.tensor([2.0, 5.0, 0.3], dtype=torch.float64, requires_grad=True)
    for inputs in (a, (a, 2)):
        report = gradproof.check(Root, inputs, refine={"steps": [2, 4, 7]})
        assert report.verdict is Verdict.PASS, str(report)
        assert "inexact" in [f.slug for f in report.findings]


def test_a_keyword_that_both_halves_take():
    def vjp(ybar, b, tol):
        return adjoint()(ybar, b) + 0 * tol

    report = gradproof.check(
        solve, B, kwargs={"tol": 1e-3}, vjp=vjp, refine={"tol": [1e-3, 1e-5, 1e-8]}
    )
    assert [f.slug for f in report.findings] == ["inexact"]


BAD = {
    "no dict": (
        [1e-3, 1e-6],
        "refine=[0.001, 1e-06] was given, and a dict of lists was expected, e.g. "
        "refine={'tol': [1e-4, 1e-6, 1e-8]}",
    ),
    "no list": (
        {"tol": 1e-3},
        "refine['tol'] is a float, and a list of settings was expected, from the "
        "loosest to the tightest",
    ),
    "one setting": (
        {"tol": [1e-3]},
        "refine['tol'] has 1 setting, and two or more were expected: one number does "
        "not shrink",
    ),
    "unknown": (
        {"tolerance": [1e-3, 1e-6]},
        "refine= names 'tolerance', which is no argument of the function (it has b, "
        "tol)",
    ),
    "uneven": (
        {"tol": [1e-3, 1e-6], "b": [1]},
        "refine['b'] has 1 setting, and two or more were expected: one number does not "
        "shrink",
    ),
    "lengths": (
        {"tol": [1e-3, 1e-6], "b": [1, 2, 3]},
        "the lists of refine= differ in length (tol: 2, b: 3); settings of several "
        "arguments go together, one of each",
    ),
    "an input": (
        {"b": [1, 2]},
        "refine= names 'b', which is an input and not a setting; name what makes the "
        "forward more exact, e.g. its tolerance",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_refined_is_refused_in_a_sentence(name):
    refine, said = BAD[name]
    with pytest.raises(UsageError) as error:
        gradproof.check(solve, B, vjp=adjoint(), refine=refine)
    assert str(error.value) == said


def test_a_smooth_truncation_is_told_of_refine():
    """Euler's steps never jump: nothing but refine= tells their error from a mistake."""

    def fine(p, n=400):
        return euler(p, n)

    alone = gradproof.check(fine, P, gradient=continuous())
    assert alone.verdict is Verdict.FAIL
    assert (
        "if the function only approximates what this is the gradient of (a fixed number "
        "of steps, a grid), refine= tells what shrinks with them from a mistake"
    ) in alone.record.notes
    told = gradproof.check(
        fine, P, gradient=continuous(), refine={"n": [400, 800, 1600]}
    )
    assert told.verdict is Verdict.PASS
    assert [f.slug for f in told.findings] == ["inexact"]
