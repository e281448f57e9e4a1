"""All rows of wrong backwards that torch.autograd.gradcheck passes, and their right twins.

Rows that need another dtype, size or point than the given one are met where something of
the same input reaches them:

| row | reached by |
|---|---|
| 13 another path in float64 | the same numbers in float32 |
| 17 the tail of a block | given at a size with a tail; at another size it is out of reach |
| 18, 19 swapped at ones, a factor behind zeros | other values, since these can show nothing |
| 20 a branch far away | given beyond it; at tame values only it is out of reach |
| 36 packed inputs | input layouts |
| 37 a conjugate forgotten | given complex numbers; out of reach of a check at real ones |
"""

from __future__ import annotations

import pytest
import rows_cotangent
import rows_form
import rows_numbers
import rows_orders
import rows_state

import gradproof
from gradproof import Verdict
from gradproof.verdict import Severity

ROWS = [
    row
    for rows in (rows_cotangent, rows_form, rows_state, rows_numbers, rows_orders)
    for row in rows.ROWS
]
EACH = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def test_every_row_is_here():
    assert {row.number for row in ROWS} == set(range(1, 44))


@EACH
def test_the_wrong_one_is_named(row):
    report = gradproof.check(row.wrong, row.inputs(), **row.options)
    first = report.findings[0]
    assert first.slug in row.slugs, str(report)
    assert first.severity == row.severity, str(report)
    failed = report.verdict is Verdict.FAIL
    assert failed == (row.severity == "error"), str(report)


@EACH
def test_the_right_twin_passes(row):
    report = gradproof.check(row.right, row.inputs(), **row.options)
    assert report.verdict is Verdict.PASS, str(report)
    assert {f.severity for f in report.findings} <= {Severity.NOTE}, str(report)


def finding(what):
    (row,) = [r for r in ROWS if r.what == what]
    return gradproof.check(row.wrong, row.inputs(), **row.options).findings[0]


def test_what_is_said_of_a_bypassed_backward():
    said = finding("forward called")
    assert said.headline == (
        "`Tanh` runs `Tanh.forward` as plain code, so the backward beside it never runs"
    )
    assert said.evidence == ("no custom gradient was entered",)
    assert said.note == (
        "autograd differentiates the forward itself, and any test of values and "
        "gradients is a test of that"
    )
    assert said.help.text == "call `.apply`, not `.forward`"


def test_what_is_said_of_an_output_without_graph():
    said = finding("one of two outputs marked")
    assert said.headline == (
        "the output out[1] of `BothMarked` carries no graph, and depends on x"
    )
    assert said.evidence == ("out[1] does not require grad; its derivative is not 0",)
    assert said.note == "a loss that uses the other outputs only is right"
    assert said.help.text == (
        "take out[1] out of `ctx.mark_non_differentiable`, and any `.detach()` or "
        "`no_grad` from its way; or declare it: allow no-graph"
    )


def test_what_is_said_of_an_edited_input():
    said = finding("x on ctx")
    assert said.headline == (
        "`SquareAttribute.backward` reads what stands in an input when it runs "
        "(x edited in place before backward)"
    )
    assert said.note == (
        "an update in place between forward and backward changes the gradient, and "
        "nothing is raised"
    )
    assert said.help.text == (
        "store tensors with `ctx.save_for_backward`: then PyTorch raises when one of "
        "them was written on"
    )


def test_what_is_said_of_a_race():
    said = finding("one of twenty")
    assert said.headline == "`Racing.backward` gives another answer each time"
    spread, counted = said.evidence
    assert spread.startswith("repeated at the same numbers, the gradient spreads over ")
    assert spread.endswith(" times its rounding")
    assert counted.endswith("repeats differ from the first call")
