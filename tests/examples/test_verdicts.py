"""What gradproof says of the examples: each right one passes, each wrong twin is told why.

The wrong twins are asked at three shapes, in two precisions, with several seeds, without
source, and under other names: a verdict comes from numbers, and text only helps to show
the place.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from expected import TABLE
from loading import from_file, from_string, path_of, renamed

import gradproof
from gradproof import Verdict, arg
from gradproof.verdict import Severity

EACH = pytest.mark.parametrize("example", TABLE, ids=lambda e: e.name)
PRECISIONS = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32], ids=["float64", "float32"]
)
# Seconds, so that a busy machine compares as much as an idle one.
BUDGET = 60
# The filter sent back unflipped: the transpose is missing, or the taps stand elsewhere.
PAIR_SLUGS = {"transposed-jacobian", "shifted-index", "wrong-gradient"}


def line_of_inputs(path):
    mark = "# gradproof: inputs "
    (line,) = [x for x in path.read_text().splitlines() if x.startswith(mark)]
    return line.removeprefix(mark)


def assert_passes(report):
    assert report.verdict is Verdict.PASS, str(report)
    assert {f.severity for f in report.findings} <= {Severity.NOTE}, str(report)


def assert_told(report, slugs):
    """FAIL, and the finding that leads bears one of the names that fit."""
    assert report.verdict is Verdict.FAIL, str(report)
    assert report.findings[0].slug in slugs, f"none of {sorted(slugs)}: {report}"
    assert report.findings[0].severity is Severity.ERROR, str(report)


@EACH
@PRECISIONS
@pytest.mark.parametrize("size", range(3))
def test_right_ones_pass(example, dtype, size):
    target = getattr(from_file(example.name), example.target)
    assert_passes(gradproof.check(target, example.draw(dtype, size), seed=size))


@EACH
@PRECISIONS
@pytest.mark.parametrize("size", range(3))
def test_wrong_twins_are_told_their_mistake(example, dtype, size):
    target = getattr(from_file(example.name, wrong=True), example.target)
    inputs = example.draw(dtype, size)
    report = gradproof.check(target, inputs, seed=size, budget=BUDGET)
    assert_told(report, example.slugs)


@EACH
@pytest.mark.parametrize("seed", [101, 2024])
def test_also_without_source(example, seed):
    module = from_string(path_of(example.name, wrong=True).read_text())
    target = getattr(module, example.target)
    inputs = example.draw(torch.float64, 1, seed)
    report = gradproof.check(target, inputs, seed=seed, budget=BUDGET)
    assert_told(report, example.slugs)


@EACH
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_also_under_other_names(example, wrong):
    text, names = renamed(path_of(example.name, wrong=wrong).read_text())
    target = getattr(from_string(text), names[example.target])
    inputs = example.draw(torch.float64, 2, 7)
    report = gradproof.check(target, inputs, seed=7, budget=BUDGET)
    if wrong:
        assert_told(report, example.slugs)
    else:
        assert_passes(report)


@EACH
def test_the_report_shows_the_place(example):
    path = path_of(example.name, wrong=True)
    target = getattr(from_file(example.name, wrong=True), example.target)
    finding = gradproof.check(target, example.draw(torch.float32), seed=0).findings[0]
    assert finding.spans
    lines = path.read_text().splitlines()
    for span in finding.spans:
        assert span.file == str(path)
        assert span.text == lines[span.line - 1]


@EACH
def test_the_inputs_that_the_file_names_do(example):
    described = arg.described(line_of_inputs(path_of(example.name)))
    assert_passes(
        gradproof.check(getattr(from_file(example.name), example.target), described)
    )
    twin = line_of_inputs(path_of(example.name, wrong=True))
    assert arg.described(twin) == described


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "k"), [(24, 5), (7, 3), (40, 8)])
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_the_numpy_pair(precision, n, k, wrong):
    module = from_file("numpy_pair", wrong=wrong)
    rng = np.random.default_rng(n)
    inputs = (
        rng.normal(size=n).astype(precision),
        rng.normal(size=k).astype(precision),
    )
    report = gradproof.check(module.forward, inputs, vjp=module.backward, seed=n)
    if wrong:
        assert_told(report, PAIR_SLUGS)
    else:
        assert_passes(report)
