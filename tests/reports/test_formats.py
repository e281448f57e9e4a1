"""One line a finding, annotations, pages and figures."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
import xml.etree.ElementTree as tree
from dataclasses import replace

import numpy as np
import pytest

from gradproof.errors import UsageError
from gradproof.reports import concise, figures, github, html, terminal, words
from gradproof.verdict import Curve, Record, Span, Verdict

from . import records as r

MIXED = replace(
    r.FAIL,
    findings=(r.NOTE, r.UNSTABLE, r.DROPPED, r.SIGN, r.GENERAL, r.STRAIGHT),
    undecided=r.KINK.undecided,
)


def test_concise_is_the_line_of_the_style_guide():
    assert concise.render(r.FAIL) == (
        "ops.py:13:16: error[dropped-cotangent] Softplus.backward ignores its "
        "cotangent; x̄[2, 0] is 0.8176, expected -1.4308 ± 2.2e-12"
    )


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("mixed", MIXED),
        ("pass", r.PASS),
        ("pass-with-warning", replace(r.PASS, findings=(r.UNSTABLE, r.STRAIGHT))),
        ("undecided", r.KINK),
        ("no-source", r.without_source(r.FAIL)),
        ("bare", Record("f", Verdict.UNDECIDED)),
    ],
)
def test_concise(name, record, gold):
    gold(f"concise-{name}", concise.render(record))
    assert concise.render(record, ascii=True).isascii()


def test_github(gold):
    several = replace(r.GENERAL, spans=(Span("ops.py", 3, 0, 5, "a = (", stop=(4, 2)),))
    bare = replace(r.DROPPED, headline="100% wrong:\r, it is")
    record = replace(MIXED, findings=(*MIXED.findings, several, bare))
    gold("github-mixed", github.render(record))
    gold("github-no-source", github.render(r.without_source(r.FAIL)))
    assert github.render(replace(r.PASS, findings=(r.STRAIGHT,))) == ""


def test_github_says_each_annotation_on_one_line():
    for line in github.render(MIXED).splitlines():
        assert re.fullmatch(r"::(error|warning|notice) [^:]*(%3A[^:]*)*::.*", line)


def test_notebook_is_the_escaped_report():
    finding = replace(r.GENERAL, headline="x < y & <script>")
    text = html.fragment(replace(r.FAIL, findings=(finding,)))
    assert "x &lt; y &amp; &lt;script&gt;" in text
    assert text.startswith("<pre")
    assert "<script>" not in text


def test_page_stands_alone():
    bad = replace(r.GENERAL, headline="x < y & <script>")
    record = replace(r.FAIL, evidence=r.measured(), findings=(bad,))
    text = html.render(record)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    links = re.findall(r"(?:src|href)=\"([^\"]*)\"", text)
    assert all(link.startswith("#") for link in links)
    assert "url(http" not in text
    assert text.count("<svg") == 1
    assert "<title>gradproof: FAIL Softplus</title>" in text


def test_page_of_several_records_and_its_table():
    text = html.render(r.FAIL, r.PASS, r.VACUOUS)
    assert "<title>gradproof: 1 PASS, 1 FAIL, 1 UNDECIDED</title>" in text
    assert text.count("<section") == text.count("<svg") == 3
    assert 'href="#r3"' in text
    for said in (words.WORTH, words.FIGURE_CAPTION, "121 forwards, 16 vjps, in 0.12 s"):
        assert said in text


def test_worth_leaves_empty_rows_out(gold):
    gold("html-worth", "\n".join(f"{k}: {v}" for k, v in html.worth(r.PASS)))
    assert html.worth(Record("f", Verdict.PASS)) == (("seed", "0"),)


@pytest.mark.parametrize(
    ("missing", "draw", "what"),
    [
        ("jinja2", html.render, "An HTML page"),
        ("matplotlib", figures.draw, "A figure"),
        ("matplotlib", html.render, "A figure"),
    ],
)
def test_without_the_extra_a_sentence_says_what_to_install(
    missing, draw, what, monkeypatch
):
    real = builtins.__import__

    def hidden(name, *args, **kwargs):
        if name.partition(".")[0] == missing:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", hidden)
    with pytest.raises(
        UsageError, match=r"pip install 'gradproof\[report\]'"
    ) as caught:
        draw(r.PASS)
    assert str(caught.value).startswith(f"{what} needs {missing}")


def test_reports_load_no_drawing_until_it_is_used():
    code = (
        "import sys, gradproof.reports.html, gradproof.reports.terminal;"
        "print([m for m in ('matplotlib', 'jinja2', 'rich') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def titles(figure) -> list[tuple[str, str]]:
    return [(a.get_xlabel(), a.get_ylabel()) for a in figure.axes]


def test_figure_of_everything():
    figure = figures.draw(replace(r.FAIL, evidence=r.measured()))
    assert titles(figure) == [
        ("step h", "error"),
        (words.EXPECTED_AXIS, words.GOT_AXIS),
        ("x", "derivative"),
    ]
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"
    ring = figure.axes[0].lines[1]
    assert ring.get_xdata()[0] == pytest.approx(1e-6)  # of h² + 1e-16/h the best decade


def test_wrong_entries_have_their_own_mark():
    axes = figures.draw(r.FAIL).axes[0]
    labels = [t.get_text() for t in axes.get_legend().get_texts()]
    # The diagonal is wrong; the zeros beside it are right.
    assert labels == ["agrees (132)", "wrong (12)"]
    markers = {line.get_marker() for line in axes.lines}
    assert {"o", "x"} <= markers


def test_figure_of_nothing_says_so():
    for record in (Record("f", Verdict.PASS), replace(r.PASS, evidence=r.evidence(
        block=None))):  # fmt: skip
        figure = figures.draw(record)
        assert [t.get_text() for t in figure.texts if t.get_text()] == [
            words.NOTHING_TO_DRAW,
            f"PASS {record.name}",
        ] or words.NOTHING_TO_DRAW in figures.svg(figure)


def test_a_curve_that_has_no_positive_value_is_drawn_without_logarithm():
    x = np.array([0.0, 1.0])
    flat = Curve("c", "t", "phi", x, np.array([0.0, np.nan]))
    e = r.measured()
    probe = replace(e.probes[0], expected=replace(e.probes[0].expected, curve=flat))
    axes = figures.draw(replace(r.PASS, evidence=replace(e, probes=(probe,)))).axes[0]
    assert axes.get_xscale() == axes.get_yscale() == "linear"
    assert "least 0 at t = 0" in terminal.render(
        replace(r.PASS, evidence=replace(e, probes=(probe,))), verbose=True
    )


def test_one_point_has_no_slope_to_draw():
    assert len(figures.draw(r.PASS).axes) == 1


def test_svg_is_the_same_each_time_and_well_formed():
    record = replace(r.FAIL, evidence=r.measured())
    first = figures.svg(figures.draw(record))
    assert first == figures.svg(figures.draw(record))
    assert tree.fromstring(first).tag.endswith("svg")
