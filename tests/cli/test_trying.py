"""Guesses never accuse: what does not fit is tried otherwise, or is UNDECIDED."""

from pathlib import Path

import pytest

from gradproof import Verdict
from gradproof.reports import json as reports_json

TEMPLATE = """
    import torch
    class Op(torch.autograd.Function):
        @staticmethod
        def forward(ctx, {arguments}):
            ctx.save_for_backward({saved})
            {forward}
        @staticmethod
        def backward(ctx, g):
            {saved}, = ctx.saved_tensors
            {backward}
"""


def op(arguments, forward, backward, saved="x"):
    return TEMPLATE.format(
        arguments=arguments, forward=forward, backward=backward, saved=saved
    )


PASSES = {
    # A gradient of a smaller shape than the guess says what shape was meant.
    "scalar": op(
        "x, s", "return x * s", "return g * s, (g * x).sum()", saved="x, s"
    ),
    "column": op(
        "h, m", "return h * m", "return g * m, (g * h).sum(1, keepdim=True)",
        saved="h, m",
    ),
    "needs-float32": op(
        "x", "assert x.dtype == torch.float32, 'float32 only'\n            return x * x",
        "return 2 * g * x",
    ),
    "positive": op("x", "return x.log()", "return g / x"),
    "number": op("x, t", "return x * float(t)", "return g * 0.75, None"),
    "rank-3": op(
        "x", "b, t, d = x.shape\n            return x.sin()", "return g * x.cos()"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSES)
def test_a_right_gradient_passes_at_a_guess_that_fits(write, run, name):
    write("ops.py", PASSES[name])
    ran = run("check", "ops.py")
    assert ran.code == 0, ran.err
    assert "1 PASS" in ran.out, ran.out
    assert ran.out.startswith("inputs: ")


def test_a_number_wrong_at_a_guess_fails(write, run):
    write("ops.py", op("x, s", "return x * s", "return g * s * 2, (g * x).sum()",
                       saved="x, s"))  # fmt: skip
    ran = run("check", "ops.py")
    assert ran.code == 1
    assert "0 PASS, 1 FAIL" in ran.out


def test_shapes_that_disagree_are_undecided_with_both_shown(write, run):
    # Either w is meant to have the shape of x, or its gradient lacks a sum: nobody knows.
    text = op(
        "x, w", "return x * w", "return g * w, (g * x).view(w.shape)", saved="x, w"
    )
    write("ops.py", text)
    ran = run("check", "ops.py")
    assert ran.code == 0
    assert "0 PASS, 0 FAIL, 1 UNDECIDED" in ran.out
    assert (
        "UNDECIDED Op: the inputs were guessed, and for some of the guesses backward"
        in ran.out
    )
    assert "  with x: f64[3, 5]; w: f64[5]\n" in ran.out
    assert "  but not with x: f64[3, 5]; w: f64[3, 5]\n" in ran.out
    assert (
        "help: say which are meant, with -i 'x: f64[B, D]; w: f64[D]' or with"
        in ran.out
    )
    told = run("check", "ops.py", "-i", "x: f64[B, D]; w: f64[D]")
    assert told.code == 1
    assert run("check", "ops.py", "-i", "x: f64[B, D]; w: f64[B, D]").code == 0


def test_a_backward_that_takes_no_guess_is_undecided(write, run):
    text = op("x, s", "return x * s.sum()",
              "raise ValueError('s must have 77 entries')", saved="x, s")  # fmt: skip
    write("ops.py", text)
    ran = run("check", "ops.py")
    assert ran.code == 0
    assert "0 PASS, 0 FAIL, 1 UNDECIDED" in ran.out
    assert (
        "UNDECIDED Op: the inputs were guessed, and backward raises ValueError: "
        "s must have 77 entries" in ran.out
    )
    assert (
        "help: say which inputs are meant; if these are, write -i 'x: f64[B, D]"
        in ran.out
    )
    assert run("check", "ops.py", "--strict").code == 1
    short = run("check", "ops.py", "--output", "concise", "--json", "run.json").out
    assert short.splitlines()[0].endswith(
        "undecided[guess] Op was asked at inputs that were guessed and does not fit them"
    )
    (record,) = reports_json.load(Path("run.json").read_text(encoding="utf-8"))
    assert record.verdict is Verdict.UNDECIDED
    assert record.findings == ()
    assert "s must have 77 entries" in record.undecided[0].detail


def test_a_backward_of_one_argument_that_takes_no_shape_fails(write, run):
    write("ops.py", op("x", "return x * 2", "raise ValueError('never')"))
    ran = run("check", "ops.py")
    assert ran.code == 1


def test_a_backward_with_a_slip_of_its_own_fails_at_once(write, run):
    write("ops.py", op("x, s", "return x * s", "return g * z, g * x", saved="x, s"))
    ran = run("check", "ops.py")
    assert ran.code == 1
    assert "NameError" in ran.out


def test_a_function_without_a_backward_of_its_own_says_that_once(write, run):
    write("ops.py", "import torch\nclass Bare(torch.autograd.Function):\n    pass\n")
    ran = run("check", "ops.py::Bare")
    assert ran.code == 2
    assert ran.sentence == (
        "Bare has no backward of its own, so there is no gradient to check"
    )


def test_a_gradient_that_never_has_the_shape_of_its_input_fails(write, run):
    write(
        "pair.py",
        """
        import numpy as np
        def scale(x, y):
            return x * y.sum()
        def scale_vjp(g, x, y):
            return g * y.sum(), np.ones((2, *y.shape))
        """,
    )
    ran = run("check", "pair.py")
    assert ran.code == 1
    assert "0 PASS, 1 FAIL" in ran.out


def test_the_shape_that_a_gradient_came_in_is_tried_next(write, run):
    text = op("x, s", "return x * s.sum()", "return g * s.sum(), (g * x).sum().expand(7)",
              saved="x, s")  # fmt: skip
    write("ops.py", text)
    ran = run("check", "ops.py")
    assert ran.out.startswith("inputs: x: f64[3, 5]; s: f64[7] (guessed")
    assert "1 PASS" in ran.out
