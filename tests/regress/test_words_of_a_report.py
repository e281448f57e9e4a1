"""What a report says of itself: no more than was asked, nothing twice, and no "1 times"."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradproof
from gradproof import Verdict
from gradproof.diagnosis.words import number


def test_what_is_left_out_is_said_once():
    text = str(gradproof.check(torch.relu, torch.tensor([0.0, 1.0])))
    assert "left out: 1 of 4 entries of dout/dinputs[0] (kink);" in text


def test_nobody_compiles_a_pair():
    x = np.linspace(-1, 1, 5)
    report = gradproof.check(np.sin, x, vjp=lambda g, x: g * np.cos(x))
    assert report.record.not_asked == ("second order", "other shapes")
    report = gradproof.check(torch.sin, torch.ones(3))
    assert report.record.not_asked == ("second order", "compile", "other shapes")


@pytest.mark.parametrize(
    ("factor", "tolerate", "verdict"),
    [
        (1.01, 0.0, Verdict.FAIL),
        (1.01, 0.05, Verdict.PASS),
        (1.04, 0.05, Verdict.PASS),
        (1.2, 0.05, Verdict.FAIL),
    ],
)
def test_what_is_tolerated_need_not_have_been_seen(factor, tolerate, verdict):
    """Without resolve=, accepting an error is no reason to be undecided."""
    x = np.linspace(0.5, 1, 5)
    report = gradproof.check(
        np.sin, x, vjp=lambda g, x: factor * g * np.cos(x), tolerate=tolerate
    )
    assert report.verdict is verdict, str(report)


def test_a_resolve_of_nothing_is_no_default():
    """0 asks for more than can be seen, and is not taken for "not given"."""
    x = np.linspace(0.5, 1, 5)
    report = gradproof.check(np.sin, x, vjp=lambda g, x: g * np.cos(x), resolve=0.0)
    assert report.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (1.5, "1.5"), (-1 / 3, "-0.3333"), (1.01, "1.01"), (0.9995, "0.9995"),
     (1.0000003, "1.0000003"), (-1.00002, "-1.00002"), (0.999996, "0.999996"),
     (1 + 1e-12, "1"), (2.1e-13, "2.1e-13"), (np.inf, "inf")],
)  # fmt: skip
def test_a_number_next_to_1_is_told_from_it(value, text):
    assert number(value) == text


def test_a_factor_next_to_1_is_not_called_1():
    x = np.linspace(0.5, 1, 5)
    report = gradproof.check(np.sin, x, vjp=lambda g, x: g * np.cos(x) * 1.000001)
    assert "returns 1.000001 times the gradient of x" in report.findings[0].headline
    assert report.findings[0].help.text == "divide by 1.000001"
