"""The curves that a record keeps: of the worst entry, or of the first."""

from __future__ import annotations

import numpy as np

import gradproof
from gradproof import Verdict, arg
from gradproof.reports.json import from_json


def kept(report):
    error, remainder = report.record.evidence.curves
    assert error.x_name == remainder.x_name == "step"
    assert error.y_name == "|D(h) − derivative|"
    assert remainder.y_name == "|f(x + h) − f(x) − h·rule|"
    assert np.array_equal(error.x, remainder.x)
    return error, remainder


def rate(curve, low, high):
    """The power of the step that the curve follows between two steps."""
    inside = (curve.x >= low) & (curve.x <= high)
    return np.polyfit(np.log(curve.x[inside]), np.log(curve.y[inside]), 1)[0]


def cube(x):
    return np.sum(x**3) + np.prod(np.sin(x))


def cube_gradient(x):
    s = np.sin(x)
    return 3 * x**2 + np.cos(x) * np.prod(s) / s


X = np.array([0.5, 1.25, 2.0])


def test_a_right_rule_leaves_a_remainder_of_second_order():
    report = gradproof.check(cube, X, gradient=cube_gradient)
    assert report.verdict is Verdict.PASS
    error, remainder = kept(report)
    assert error.name == "error against step of out by x[0]"
    assert remainder.name == "Taylor remainder of out by x[0]"
    assert 1.9 < rate(remainder, 1e-5, 1e-2) < 2.1
    assert 1.9 < rate(error, 1e-3, 1e-1) < 2.1
    assert error.y.min() < 1e-8
    assert len(error.x) == 20


def test_a_wrong_rule_leaves_one_of_first_order_at_the_worst_entry():
    def wrong(x):
        g = cube_gradient(x)
        g[1] *= 1.2
        return g

    report = gradproof.check(cube, X, gradient=wrong)
    assert report.verdict is Verdict.FAIL
    error, remainder = kept(report)
    assert error.name == "error against step of out by x[1]"
    assert 0.95 < rate(remainder, 1e-5, 1e-3) < 1.05
    assert 1.9 < rate(error, 1e-3, 1e-1) < 2.1


def test_they_are_kept_in_the_file_and_drawn():
    report = gradproof.check(cube, X, gradient=cube_gradient)
    again = from_json(report.to_json())
    for a, b in zip(again.evidence.curves, report.record.evidence.curves, strict=True):
        assert a.name == b.name
        assert np.array_equal(a.x, b.x)
        assert np.array_equal(a.y, b.y)
    shown = report.render(verbose=True)
    assert "error against step of out by x[0]" in shown
    assert "Taylor remainder of out by x[0]" in shown


def test_along_a_direction_and_on_a_set():
    def f(q):
        return np.tanh(q) * q[:, ::-1]

    def vjp(ybar, q):
        t = np.tanh(q)
        return ybar * (1 - t * t) * q[:, ::-1] + (ybar * t)[:, ::-1]

    large = gradproof.check(f, (arg.unit(300, 4),), vjp=vjp)
    _, remainder = kept(large)
    assert remainder.name == "Taylor remainder of a direction"
    small = gradproof.check(f, (arg.unit(2, 3),), vjp=vjp)
    _, remainder = kept(small)
    assert 1.9 < rate(remainder, 1e-4, 1e-2) < 2.1


def test_steps_below_the_spacing_are_left_out():
    import torch

    def f(x):
        return torch.from_numpy(np.sin(x.detach().numpy().astype(np.float32)))

    report = gradproof.check(
        f, torch.tensor([0.75, 2.5]), vjp=lambda g, x: g * torch.cos(x)
    )
    error, _ = kept(report)
    assert 4 < len(error.x) < 20
    assert error.x.min() > 1e-8


def test_nothing_measured_nothing_drawn():
    report = gradproof.check(np.abs, np.array([0.0]), vjp=lambda g, x: g * np.sign(x))
    assert report.verdict is not Verdict.FAIL
    assert report.record.evidence.curves == ()


def test_a_slow_function_gets_fewer_steps(monkeypatch):
    from gradproof.checks import curves

    monkeypatch.setattr(curves, "SECONDS", 0.0)
    error, _ = kept(gradproof.check(cube, X, gradient=cube_gradient))
    assert len(error.x) == 7
