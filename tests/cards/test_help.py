"""What a report points at and what it tells to do, where it once misled."""

from __future__ import annotations

import numpy as np
import pytest
from test_layers import TRUE, WRONG, evidence

from gradproof.diagnosis import diagnose, explain
from gradproof.verdict import Elsewhere, Severity, Verdict

torch = pytest.importorskip("torch")
gradproof = pytest.importorskip("gradproof")


def times(a, b):
    return a * b


@pytest.mark.parametrize(
    "backward",
    [
        lambda g, a, b: g * b,
        lambda g, a, b: (g * b,),
        lambda g, a, b: (g * b, g * a, g),
    ],
    ids=["one array", "a tuple of one", "three"],
)
def test_a_numpy_backward_with_another_count_is_told_so(backward):
    report = gradproof.check(times, (np.ones(3), np.arange(1.0, 4.0)), vjp=backward)
    (found,) = report.findings
    assert (found.slug, found.severity) == ("wrong-arity", Severity.ERROR)


def raising(g, a, b):
    raise ZeroDivisionError("never mind")


def test_what_a_pair_raises_is_not_blamed_on_torch():
    report = gradproof.check(times, (np.ones(3), np.ones(3)), vjp=raising)
    assert report.findings[0].slug == "backward-raises"
    assert "torch" not in report.findings[0].help.text


def log_of_exp(x):
    return np.log(1 + np.exp(x))


def slope(g, x):
    return g / (1 + np.exp(-x))


def test_a_forward_that_overflows_is_not_shown_as_its_backward():
    report = gradproof.check(log_of_exp, (np.array([1.0, 2.0, -3.0]),), vjp=slope)
    found = next(f for f in report.findings if f.slug == "unstable-forward")
    assert not any("slope" in span.text for span in found.spans)


class Counting(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counting.calls += 1
        return x * Counting.calls

    @staticmethod
    def backward(ctx, g):
        return g * Counting.calls


def test_a_history_is_told_once():
    report = gradproof.check(Counting, (torch.ones(3, dtype=torch.float64),))
    assert report.verdict is Verdict.UNDECIDED
    assert [u.reason for u in report.record.undecided] == ["stateful-forward"]
    assert "stateful-forward" not in {f.slug for f in report.findings}
    assert str(report).count("depends on what was called before") == 1


MASK = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0, 1.0], dtype=torch.float64)


class MaskedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.sin() * MASK).sum() / MASK.sum()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * MASK / 6


def test_a_miscounted_mean_is_told_by_what_to_divide():
    x = torch.linspace(0.1, 1.3, 6, dtype=torch.float64)
    found = gradproof.check(MaskedMean, (x,)).findings[0]
    assert found.slug == "wrong-factor"
    assert found.help.text.startswith("divide by 5 where it divides by 6")
    assert found.help.confirmed


def inexact(implied):
    there = evidence(implied)
    setting = Elsewhere("steps = 10", "refine", Verdict.FAIL, there)
    (found,) = diagnose(evidence(elsewhere=(setting,))).findings
    assert found.slug == "inexact"
    return found


def test_a_truncation_that_is_a_plain_factor_is_told_as_one():
    factor = inexact(1.05 * TRUE)
    assert "factor" in factor.help.text
    assert "solver" not in factor.help.text
    assert any("1.05" in text for text in factor.evidence)
    assert "solver" in inexact(WRONG + 0.01).help.text


def test_the_last_resort_says_what_to_do():
    odd = TRUE + np.random.default_rng(1).normal(size=TRUE.shape)
    (found,) = diagnose(evidence(odd)).findings
    assert found.slug == "wrong-gradient"
    assert "more than one" in found.note
    for words in ("--suggest", "reference="):
        assert words in found.help.text
        assert words in explain("wrong-gradient")
    assert "got and expected" in explain("wrong-gradient")
