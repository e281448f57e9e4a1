"""Every sentence of the terminal report, as text in tests/gold."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from gradproof.reports import details, words
from gradproof.reports.terminal import MOST_LINES, render
from gradproof.space import Leaf, Space
from gradproof.verdict import (
    Code,
    Evidence,
    Finding,
    Help,
    Probe,
    Record,
    Severity,
    Span,
    Undecided,
    Verdict,
    Worst,
)

from . import records as r

COMPLEX = Finding(
    "missing-conjugate",
    "the gradient of `z` lacks a conjugate",
    Severity.ERROR,
    worst=Worst(
        "z̄[1].imag", "z = 0.5-0.25j", 3.5e-9, -3.5e-9, 2e-17, "", 1_024, 65_536
    ),
)
SITUATIONS = {
    "dropped": r.FAIL,
    "no-source": r.without_source(r.FAIL),
    "two-findings": replace(r.FAIL, findings=(r.UNSTABLE, r.DROPPED)),
    "short-and-undecided": replace(
        r.FAIL, findings=(r.GENERAL, r.SIGN), undecided=r.KINK.undecided
    ),
    "with-a-note": replace(
        r.FAIL, findings=(r.NOTE, r.GENERAL), undecided=r.KINK.undecided
    ),
    "many-findings": replace(
        r.FAIL, findings=(r.GENERAL,) + 20 * (r.SIGN,), undecided=r.KINK.undecided
    ),
    "allowed-and-wrong": replace(
        r.FAIL, findings=(r.STRAIGHT, r.SIGN), notes=("the inputs were guessed",)
    ),
    "complex": replace(r.FAIL, findings=(COMPLEX,), reproduce=""),
    "pass": r.PASS,
    "pass-with-warning": replace(
        r.PASS, findings=(r.NOTE, r.UNSTABLE), notes=("the inputs were guessed",)
    ),
    "pass-allowed": replace(
        r.PASS,
        findings=(r.STRAIGHT,),
        left_out=("3 of 10⁶ entries at kinks",),
        not_asked=(),
    ),
    "pass-bare": Record("f", Verdict.PASS),
    "kink": r.KINK,
    "vacuous": r.VACUOUS,
    "undecided-many": replace(
        r.KINK,
        findings=(r.UNSTABLE,),
        undecided=tuple(
            Undecided(reason, where, "measured", "ask elsewhere")
            for reason, where in (
                ("noise", "y[1] by x[3]"), ("jump", "x[0]"), ("domain", "x[1] = 0.0"),
                ("stateful-forward", ""), ("nondeterministic-forward", ""),
                ("scale", "x['a'][2].real"), ("budget", "12 of 40 entries"),
                ("resolve", ""), ("something", "x"),
            )
        ),
    ),
    "empty-fail": Record("f", Verdict.FAIL),
    "empty-undecided": Record("f", Verdict.UNDECIDED, notes=("no custom gradient in it",)),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_reads_as_it_should(name, gold):
    gold(f"terminal-{name}", render(SITUATIONS[name]))


@pytest.mark.parametrize("name", ["dropped", "complex", "pass-allowed", "kink"])
def test_ascii(name, gold):
    text = render(SITUATIONS[name], ascii=True)
    assert text.isascii()
    gold(f"terminal-{name}-ascii", text)


def test_narrow(gold):
    gold("terminal-dropped-narrow", render(r.FAIL, width=60))


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_failure_fits_on_a_screen(name):
    assert len(render(SITUATIONS[name]).splitlines()) <= MOST_LINES


@pytest.mark.parametrize("width", [60, 80, 100])
def test_nothing_but_commands_and_the_pass_line_is_wider_than_the_page(width):
    for record in (r.FAIL, SITUATIONS["two-findings"]):
        for line in render(record, width=width).splitlines():
            command = line.startswith((words.REPRODUCE, words.EXPLAIN))
            assert len(line) <= width + 2 or command


@pytest.mark.parametrize("name", SITUATIONS)
def test_colour_is_never_the_only_carrier(name):
    coloured = render(SITUATIONS[name], colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == render(SITUATIONS[name])


def test_pass_is_one_line():
    assert "\n" not in render(r.PASS)
    assert render(r.PASS) == (
        "PASS Softplus  x: float64[3, 5]  would have seen relative errors ≥ 2.1e-09 (uniform), "
        "3e-07 (one entry); 225 of 225 Jacobian entries compared; "
        "not asked: second order, compile, other shapes"
    )


def test_errors_lead_and_the_order_of_the_record_stands():
    text = render(replace(r.FAIL, findings=(r.NOTE, r.UNSTABLE, r.SIGN, r.DROPPED)))
    assert text.startswith("error[wrong-sign]")
    assert "explain:   gradproof explain wrong-sign" in text


def test_the_leading_finding_is_complete_however_long():
    long = replace(r.DROPPED, evidence=tuple(f"measurement {i}" for i in range(30)))
    text = render(replace(r.FAIL, findings=(long, r.SIGN)))
    assert all(f"measurement {i}" in text for i in range(30))
    assert "and 1 more finding; the verbose report shows them" in text


def test_verbose_at_one_point(gold):
    text = render(r.PASS, verbose=True)
    assert "0.69314718056" in text
    assert "0.500000000000 ± 2e-12" in text
    gold("verbose-pass", text)


def test_verbose_with_everything(gold):
    record = replace(
        r.FAIL,
        findings=(r.DROPPED, r.SIGN, r.STRAIGHT),
        undecided=r.VACUOUS.undecided,
        evidence=r.measured(),
        limits=r.PASS.limits,
        evaluations=(1, 1),
        seconds=421.2,
    )
    gold("verbose-fail", render(record, verbose=True))


def test_verbose_says_that_ways_agreed():
    text = render(replace(r.PASS, evidence=r.agreeing()), verbose=True)
    assert "ways:      grad_output offset; all agree with the plain one" in text


def test_verbose_says_what_became_of_entries(gold):
    gold(
        "verbose-codes", render(replace(r.PASS, evidence=r.with_codes()), verbose=True)
    )


def test_verbose_pass_shows_allowed_and_notes_in_full(gold):
    record = replace(r.PASS, findings=(r.STRAIGHT, r.NOTE), evidence=None)
    gold("verbose-pass-allowed", render(record, verbose=True))


def test_verbose_of_a_full_jacobian(gold):
    j = np.arange(1.0, 7).reshape(2, 3)
    into = Space.of([Leaf("a", (2,)), Leaf("b", ())])
    out = Space.of([Leaf("y", (2,))])
    point, value = np.array([0.5, 0.25, -1.5]), np.array([4.5, 1e-3])
    e = Evidence("f", into, out, point, value, block=r.block(j, j, bar=1e-4))
    gold("verbose-jacobian", render(replace(r.PASS, evidence=e), verbose=True))


def test_a_long_table_shows_wrong_entries_first():
    e = r.evidence(np.linspace(-3, 3, 40))
    b = e.block
    implied = b.implied.copy()
    implied[33, 33] *= 2
    e = replace(e, block=replace(b, implied=implied))
    text = render(replace(r.PASS, evidence=e), verbose=True)
    table = text[text.index(words.AT_THE_POINT) :].splitlines()
    assert table[2].split()[0] == "x[33]"
    assert table[2].endswith("wrong")
    assert "… 28 entries not shown" in text


TELLING = [
    # wrong, expected, got, the places that get a row
    ([], {3: 0.5, 17: -2.0, 29: 1.0}, {}, [17, 29, 3]),
    ([5, 9], {3: 0.5, 5: 0.1, 9: 7.0}, {5: 0.2, 9: 5.0}, [9, 5, 3]),
    ([5, 9], {3: 0.5, 9: 7.0}, {5: math.nan, 9: 5.0}, [5, 9, 3]),
    ([5], {3: 8.0, 11: math.nan}, {5: 1.0}, [5, 11, 3]),
]


@pytest.mark.parametrize(("wrong", "expected", "got", "first"), TELLING)
def test_a_long_table_begins_with_what_tells_something(wrong, expected, got, first):
    n = details.MOST_ROWS * 3
    values, answers, mask = np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool)
    mask[wrong] = True
    for place, number in expected.items():
        values[place] = answers[place] = number
    for place, number in got.items():
        answers[place] = number
    rows = details.telling(mask, values, answers)
    assert len(rows) == details.MOST_ROWS
    assert rows[: len(first)].tolist() == first


def test_a_short_table_keeps_its_order():
    n = details.MOST_ROWS
    rows = details.telling(np.arange(n) == 3, np.arange(n) * 1.0, np.zeros(n))
    assert rows.tolist() == list(range(n))


def test_an_off_diagonal_answer_is_never_hidden_by_the_diagonal_table():
    e = r.evidence(np.array([0.0, 1.0]))
    b = e.block
    implied = b.implied.copy()
    implied[0, 1] = 3.0
    e = replace(e, block=replace(b, implied=implied))
    text = render(replace(r.PASS, evidence=e), verbose=True)
    assert "∂y[0]/∂x[1]" in text


@pytest.mark.parametrize("outputs", [1, 3, 2])
def test_verbose_of_a_probe(outputs, gold):
    into, out = Space.of([Leaf("x", (3,))]), Space.of([Leaf("y", (outputs,))])
    e = r.estimate(np.array([1.0, 2.0, 3.0]), bar=1e-6)
    code = np.array([Code.OK, Code.NOISE, Code.UNMEASURED], np.int8)
    got = np.array([1.0, 5.0, 9.0])
    probe = Probe(
        np.ones(3), np.full(outputs, 0.75), got, replace(e, code=code), np.zeros(3)
    )
    found = Evidence("f", into, out, np.ones(3), np.full(outputs, 6.0), probes=(probe,))
    gold(
        f"verbose-probe-{outputs}",
        render(replace(r.PASS, evidence=found), verbose=True),
    )


def span(line: int, start: int, end: int, text: str, label: str = "", **more) -> Span:
    return Span(more.pop("file", "ops.py"), line, start, end, text, label, **more)


def rows(*spans: Span, record: Record = r.FAIL, **how) -> list[str]:
    finding = replace(r.GENERAL, spans=spans, worst=None)
    return render(replace(record, findings=(finding,)), **how).splitlines()


def test_carets_stand_under_tabs_and_wide_signs():
    out = rows(span(13, 8, 11, "\treturn bad # 世"))
    assert out[4].index("^^^") == out[3].index("bad")
    text = "    s = '世界' + bad"
    out = rows(span(13, text.index("bad"), len(text), text))
    assert out[4].count("^") == 3
    assert out[4].index("^") == out[3].index("bad") + 2  # two signs of two columns


def test_carets_stand_under_what_ascii_makes_of_a_line():
    text = "    return ȳ * λ + bad"
    out = rows(span(13, text.index("bad"), len(text), text), ascii=True)
    assert out[3].endswith("grad_output * lambda + bad")
    assert out[4].index("^^^") == out[3].index("bad")


@pytest.mark.parametrize("start", [5, 60, 150])
def test_a_long_line_is_cropped_around_the_carets(start):
    text = "".join(f"{i:03d} " for i in range(50))
    out = rows(span(13, start, start + 3, text, "here"), width=60)
    assert len(out[3]) <= 60
    marked = out[3][out[4].index("^") : out[4].index("^") + 3]
    assert marked == text[start : start + 3]


def test_a_caret_that_runs_over_the_end_is_cut():
    text = "x" * 200
    out = rows(span(13, 0, 200, text), width=60)
    assert len(out[4]) <= len(out[3]) <= 60


def test_several_spans_on_a_line_and_far_apart():
    out = rows(
        span(3, 0, 5, r.LINES[0], "first", primary=False),
        span(13, 8, 14, r.RETURN, "one"),
        span(13, 15, 31, r.RETURN, "two", primary=False),
    )
    assert out[1] == "  --> ops.py:13:9"
    assert out[5] == "..."
    assert [line.strip("| ") for line in out[7:9]] == [
        "^^^^^^ one",
        "---------------- two",
    ]


def test_spans_of_two_files():
    out = rows(
        span(2, 0, 3, "def f():", "defined here", file="lib.py", primary=False),
        span(13, 8, 14, r.RETURN),
        span(9, 0, 3, "let", file="lib.py", primary=False),
    )
    assert out[1] == "  --> ops.py:13:9"
    assert "  ::: lib.py:2:1" in out
    assert "..." in out  # the text of lib.py is not known


def test_a_file_below_the_current_directory_is_named_from_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = str(tmp_path / "pkg" / "ops.py")
    assert rows(span(13, 0, 3, "abc", file=file))[1] == "  --> pkg/ops.py:13:1"
    assert rows(span(13, 0, 3, "abc", file="/elsewhere/ops.py"))[1].endswith(
        "--> /elsewhere/ops.py:13:1"
    )


def test_a_source_without_spans_names_its_file():
    assert rows()[1] == " --> ops.py:3"


def test_a_diff_of_several_lines_and_of_one_that_is_added():
    help = Help("do", 9, "    a\n    b", "    c")
    text = render(replace(r.FAIL, findings=(replace(r.GENERAL, help=help),)))
    assert " 9 -     a\n10 -     b\n 9 +     c\n" in text
    text = render(
        replace(r.FAIL, findings=(replace(r.GENERAL, help=Help("do", new="  c")),))
    )
    assert "\n  +   c\n" in text


def test_the_last_resort_admits_it_only_without_help():
    assert words.NO_MISTAKE_KNOWN in render(replace(r.FAIL, findings=(r.GENERAL,)))
    helped = replace(r.GENERAL, help=Help("do"))
    assert words.NO_MISTAKE_KNOWN not in render(replace(r.FAIL, findings=(helped,)))


def test_evidence_of_several_lines_hangs_under_itself():
    finding = replace(r.GENERAL, evidence=("first\nsecond",))
    text = render(replace(r.FAIL, findings=(finding,)))
    assert "= evidence: first\n              second\n" in text


def test_without_a_bar_none_is_printed():
    worst = replace(r.GENERAL.worst, bar=float("nan"))
    text = render(replace(r.FAIL, findings=(replace(r.GENERAL, worst=worst),)))
    assert "expected 0.750000\n" in text
    assert "±" not in text


@pytest.mark.parametrize(
    ("at", "said"),
    [("x = 0.5", "worst is x̄[3], at x = 0.5\n"), ("asked twice", "worst is x̄[3], asked twice\n"),
     ("", "worst is x̄[3]\n")],
)  # fmt: skip
def test_where_the_worst_entry_is(at, said):
    finding = replace(r.GENERAL, worst=replace(r.GENERAL.worst, at=at))
    assert said in render(replace(r.FAIL, findings=(finding,)))


def test_a_single_entry_is_not_counted():
    finding = replace(r.GENERAL, worst=replace(r.GENERAL.worst, total=1))
    text = render(replace(r.FAIL, findings=(finding,)))
    assert "= evidence: x̄[3] is wrong, at x = 0.5\n" in text
