"""compile=: the same gradient under torch.compile, and what is said where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import Function

import gradproof
from gradproof import Verdict
from gradproof.adapters import torch_compiled

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# A backend of PyTorch's own that makes relu wrong, for tests such as these.
WRONG = "relu_accuracy_error_TESTING_ONLY"


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


class Compiled(Square):
    """Takes another path where it is compiled."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (3 if torch.compiler.is_compiling() else 2) * g * x


class Opaque(Square):
    """Looks at its numbers, which the compiler cannot follow."""

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x


class Mask(Function):
    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x).round()
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * mask


def asked(thing, *inputs, backend="aot_eager", **options):
    inputs = inputs or (torch.linspace(-1, 2, 6),)
    return gradproof.check(thing, inputs, compile=backend, ways=False, **options)


@pytest.mark.parametrize(
    "thing",
    [Square, Mask, torch.nn.Linear(6, 2), torch.sin, lambda x: {"a": [x.sin()]}],
    ids=["Function", "draws", "module", "operator", "nested"],
)
def test_a_right_gradient_is_right_when_compiled(thing):
    report = asked(thing)
    assert report.verdict is Verdict.PASS, report
    assert report.findings == ()
    assert "compile" not in report.record.not_asked
    ways = {a.way: a.agreed for a in report.record.evidence.asked}
    assert ways == {"under torch.compile": True}


def test_another_gradient_is_an_error_that_blames_the_compiler():
    report = asked(Compiled, backend="eager")
    assert report.verdict is Verdict.FAIL
    text = str(report)
    assert "gives another gradient when compiled than eagerly" in text
    assert (
        "under torch.compile: 6 entries of the gradient of x differ from a plain"
        in text
    )
    assert "the eager rule may be right; it is the compiled program that is not" in text


def test_other_values_are_an_error_too():
    report = asked(lambda x: torch.relu(x) + x, torch.ones(3), backend=WRONG)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "compiler-mismatch"
    assert "out: 3 of 3 values differ from the eager ones" in str(report)


def test_what_cannot_be_compiled_is_a_warning():
    report = asked(torch.relu, torch.ones(3), backend="relu_compile_error_TESTING_ONLY")
    assert report.verdict is Verdict.PASS
    (found,) = report.findings
    assert (found.slug, found.severity) == ("compiler-mismatch", "warning")
    assert found.headline.endswith("raises when compiled")
    assert "ReluCompileError" in str(report)


def test_what_the_compiler_leaves_alone_runs_eagerly_and_the_report_says_so():
    report = asked(Opaque)
    assert report.verdict is Verdict.PASS
    said = "the compiler compiled nothing of Opaque: it runs eagerly there too"
    assert said in report.record.notes


def test_without_a_working_compiler_nothing_is_accused(monkeypatch):
    def none(_name):
        raise RuntimeError("No working C++ compiler found\nSet TORCH_LOGS")

    monkeypatch.setattr(torch_compiled, "_backend", none)
    torch_compiled.broken.cache_clear()
    try:
        report = asked(Square, backend=True)
    finally:
        torch_compiled.broken.cache_clear()
    assert report.verdict is Verdict.UNDECIDED
    (gap,) = report.record.undecided
    assert (gap.reason, gap.where) == ("not-compiled", "Square")
    assert gap.detail == (
        "torch.compile does not run here (backend inductor: No working C++ compiler found)"
    )
    assert 'compile="aot_eager" needs no C++ compiler' in gap.decide
    assert "`Square` could not be compared under the compiler" in str(report)


def test_a_compiler_that_is_switched_off_is_not_taken_for_one_that_agrees():
    torch_compiled.broken.cache_clear()
    try:
        with torch._dynamo.config.patch(disable=True):
            report = asked(Square, allow="not-compiled")
            gap = torch_compiled.broken("aot_eager")
    finally:
        torch_compiled.broken.cache_clear()
    assert gap == "torch.compile is switched off here"
    assert report.verdict is Verdict.PASS  # since that was allowed


def test_other_random_numbers_are_no_mistake():
    def eager(x):
        if torch.compiler.is_compiling():
            torch.rand(1)
        return x * torch.rand_like(x)

    report = asked(eager, backend="eager")
    assert report.verdict is Verdict.UNDECIDED
    assert "torch.compile makes it draw other random numbers" in str(report)


def test_many_checks_do_not_use_the_compiler_up():
    for k in range(12):
        report = asked(lambda x, k=k: x * (k + 1), backend="eager")
        assert report.record.notes == (
            "<lambda> applies no custom gradient; autograd's own was checked",
        )


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (
            3,
            "compile=3 was given, and True, False or the name of a backend was expected",
        ),
        ("inducto", "did you mean 'inductor'?"),
    ],
)
def test_what_is_no_backend_is_refused(backend, said):
    with pytest.raises(gradproof.UsageError) as error:
        asked(Square, backend=backend)
    assert said in str(error.value)


def test_nobody_compiles_a_pair():
    x = np.linspace(-1, 1, 5)
    with pytest.raises(gradproof.UsageError, match="no compiler ever sees a raw pair"):
        gradproof.check(np.sin, x, vjp=lambda g, x: g * np.cos(x), compile=True)
