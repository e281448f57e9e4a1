"""reference=: one more witness, and the yardstick of a coarse dtype."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradproof
from gradproof import UsageError, Verdict, arg


def plain(x, w, eps=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def kernel(bad=1.0, lossy=0.0, eps=1e-5):
    """RMSNorm that refuses float64 and leaves the graph, as a kernel does."""

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            if x.dtype == torch.float64:
                raise TypeError("no kernel for float64")
            ctx.save_for_backward(x, w)
            a = torch.from_numpy(x.detach().float().numpy().copy())
            r = torch.rsqrt((a * a).mean(-1, keepdim=True) + eps)
            return (a * r * w.detach().float()).to(x.dtype)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            dtype = x.dtype
            x, w, g = x.float(), w.float(), g.float()
            r = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
            gg = g * w
            gx = r * gg - r**3 * x * (gg * x).mean(-1, keepdim=True)
            gx = bad * gx * (1 + lossy * torch.sin(1e4 * x))
            return gx.to(dtype), (g * x * r).sum(0).to(dtype)

    return Kernel


def inputs(dtype):
    return arg.randn(4, 8, dtype=dtype), arg.randn(8, dtype=dtype)


def notes(report):
    return [n for n in report.record.notes if n.startswith("against the reference")]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_right_kernel_passes_with_its_ratios(dtype):
    report = gradproof.check(kernel(), inputs(dtype), reference=plain)
    assert report.verdict is Verdict.PASS, str(report)
    [note] = notes(report)
    assert note.startswith(f"against the reference in {dtype}: out ")
    assert "d/dx " in note
    assert "d/dw " in note
    for part in note.partition(": ")[2].split(", "):
        assert part.endswith((" times its error", " equal to within rounding"))
    assert "inaccurate" not in [f.slug for f in report.findings]


@pytest.mark.parametrize(("dtype", "bad"), [("bfloat16", 1.2), ("float16", 1.2)])
def test_a_reference_sees_what_coarse_differences_do_not(dtype, bad):
    report = gradproof.check(kernel(bad), inputs(dtype), reference=plain)
    assert report.verdict is Verdict.FAIL
    worst = next(f.worst for f in report.findings if f.worst is not None)
    assert "narrowed by the reference" in worst.method or "reference" in worst.method
    sharper = report.detection_limit["one entry"]
    alone = gradproof.check(kernel(), inputs(dtype)).detection_limit["one entry"]
    assert sharper < alone


def test_more_error_than_the_reference_has_is_inaccurate_and_no_failure():
    report = gradproof.check(kernel(1.01), inputs("float16"), reference=plain)
    assert report.verdict is Verdict.PASS, str(report)
    [finding] = [f for f in report.findings if f.severity == "warning"]
    assert finding.slug == "inaccurate"
    [line] = finding.evidence
    assert line.startswith("off by ")
    assert line.endswith(" times the error of the reference")


def test_another_function_is_no_reference():
    for dtype in ("float32", "float64"):
        make = plain if dtype == "float64" else kernel(eps=0.25)
        other = (lambda x, w: plain(x, w, 2e-5)) if dtype == "float64" else plain
        report = gradproof.check(make, inputs(dtype), reference=other)
        assert report.verdict is Verdict.UNDECIDED, str(report)
        [open_] = report.record.undecided
        assert open_.reason == "witnesses"
        assert open_.where.startswith("out[")
        assert open_.detail.startswith(
            "because the witnesses disagree: the function gives "
        )
        assert " there and the reference " in open_.detail
        assert open_.decide == (
            "give a reference that is the same function, or leave reference= out"
        )
        assert "and its reference contradict each other at out[" in str(report)
        assert gradproof.check(
            make, inputs(dtype), reference=other, allow="witnesses"
        ).verdict is Verdict.PASS  # fmt: skip


def test_a_wrong_reference_never_hides_nor_makes_a_failure():
    def stopped(x, w):
        return plain(x, w) + 0 * x + (x - x.detach()) * 0.1

    right = gradproof.check(kernel(), inputs("float32"), reference=stopped)
    assert right.verdict is Verdict.UNDECIDED
    [open_] = right.record.undecided
    assert open_.reason == "witnesses"
    assert open_.detail.startswith(
        "because the witnesses disagree: differences of the function give "
    )
    assert "out[" in open_.where
    wrong = gradproof.check(kernel(1.3), inputs("float32"), reference=stopped)
    assert wrong.verdict is Verdict.FAIL


class Softplus(torch.autograd.Function):
    factor = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.softplus(x)

    @classmethod
    def backward(cls, ctx, g):
        (x,) = ctx.saved_tensors
        return cls.factor * g * torch.sigmoid(x)


class Double(Softplus):
    factor = 2.0


def test_a_rule_that_runs_in_float64_and_its_reference():
    for dtype in ("float64", "float32", "bfloat16"):
        x = arg.randn(5, dtype=dtype)
        right = gradproof.check(Softplus, (x,), reference=torch.nn.functional.softplus)
        assert right.verdict is Verdict.PASS, str(right)
        assert len(notes(right)) == 1
        wrong = gradproof.check(Double, (x,), reference=torch.nn.functional.softplus)
        assert wrong.verdict is Verdict.FAIL


def test_a_reference_in_a_wider_dtype():
    def wide(x, w):
        return plain(x.float(), w.float())

    report = gradproof.check(kernel(), inputs("bfloat16"), reference=wide)
    assert report.verdict is Verdict.PASS, str(report)
    assert len(notes(report)) == 1


def test_a_reference_that_does_not_run_in_float64():
    def narrow(x, w):
        if x.dtype == torch.float64:
            raise TypeError("float32 only")
        return plain(x, w)

    report = gradproof.check(kernel(), inputs("float32"), reference=narrow)
    assert (
        "the reference does not run in float64, so it was no yardstick"
        in report.record.notes
    )


# NumPy.


def table(x):
    """Sine, out of single precision."""
    return np.sin(x.astype(np.float32)).astype(np.float64)


def test_a_numpy_reference_narrows_what_a_noisy_function_leaves_open():
    x = np.array([0.4, 1.3, 2.5])
    alone = gradproof.check(table, x, jacobian=lambda x: np.diag(np.cos(x)))
    both = gradproof.check(
        table, x, jacobian=lambda x: np.diag(np.cos(x)), reference=np.sin
    )
    assert both.verdict is Verdict.PASS, str(both)
    assert both.detection_limit["one entry"] < alone.detection_limit["one entry"]
    wrong = gradproof.check(
        table, x, jacobian=lambda x: 1.01 * np.diag(np.cos(x)), reference=np.sin
    )
    assert wrong.verdict is Verdict.FAIL
    [note] = notes(both)
    assert note.startswith("against the reference: out ")


def test_a_numpy_reference_of_another_function():
    report = gradproof.check(
        np.sin, np.array([0.4, 1.3]), jacobian=lambda x: np.diag(np.cos(x)),
        reference=lambda x: np.sin(x) + 1e-3 * x,
    )  # fmt: skip
    assert report.verdict is Verdict.UNDECIDED
    assert [u.reason for u in report.record.undecided] == ["witnesses"]


def test_a_large_kernel_is_narrowed_along_directions():
    class Large(torch.autograd.Function):
        slope = 0.0

        @staticmethod
        def forward(ctx, x):
            if x.dtype == torch.float64:
                raise TypeError("no kernel for float64")
            ctx.save_for_backward(x)
            return torch.from_numpy(np.tanh(x.detach().numpy())).roll(1)

        @classmethod
        def backward(cls, ctx, g):
            (x,) = ctx.saved_tensors
            return g.roll(-1) * (1 - torch.tanh(x) ** 2 + cls.slope)

    class Off(Large):
        slope = 0.05

    x = arg.randn(3000, dtype="float32")

    def twin(x):
        return torch.tanh(x).roll(1)

    good = gradproof.check(Large, (x,), reference=twin)
    assert good.verdict is Verdict.PASS, str(good)
    assert gradproof.check(Off, (x,), reference=twin).verdict is Verdict.FAIL


@pytest.mark.parametrize("keyword", ["reference", "surrogate"])
def test_what_is_no_reference_is_refused(keyword):
    for other, said in (
        (3, f"Expected {keyword}= to be a function of the same arguments but got int, "
            "which cannot be called."),
        (lambda x: np.append(x, 1.0), f"{keyword}= gives another output than sin; it "
            "must return the same structure and shapes."),
    ):  # fmt: skip
        with pytest.raises(UsageError) as error:
            gradproof.check(
                np.sin, np.ones(2), jacobian=lambda x: np.diag(np.cos(x)),
                **{keyword: other},
            )  # fmt: skip
        assert str(error.value) == said


def test_described_inputs_of_a_numpy_pair_are_arrays_where_torch_is_about():
    report = gradproof.check(
        lambda a: np.linalg.slogdet(a)[1], arg.spd(3, 3), gradient=np.linalg.inv
    )
    assert report.verdict is Verdict.PASS, str(report)


def test_a_solver_and_its_exact_reference_agree_to_within_its_noise():
    a = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.75], [0.5, 0.75, 5.0]])

    def solve(b, tol=1e-7):
        x = np.zeros(3)
        while np.linalg.norm(a @ x - b) > tol * np.linalg.norm(b):
            x = x + 0.15 * (b - a @ x)
        return x

    def vjp(ybar, b):
        return np.linalg.solve(a.T, ybar)

    b = np.array([1.0, 2.0, 3.0])
    exact = gradproof.check(
        solve, b, vjp=vjp, reference=lambda b: np.linalg.solve(a, b)
    )
    assert exact.verdict is Verdict.PASS, str(exact)
    wrong = gradproof.check(
        solve, b, vjp=lambda g, b: 1.1 * vjp(g, b),
        reference=lambda b: np.linalg.solve(a, b),
    )  # fmt: skip
    assert wrong.verdict is Verdict.FAIL
