"""README.md is what a stranger believes first: all that it shows is run."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
import tomllib
import warnings

import numpy as np
import pytest
from pages import (
    ROOT,
    alike,
    blocks,
    code_in,
    commands,
    rewritten,
    run_block,
    same,
    sessions,
    table,
)

from gradproof import diagnosis, samples
from gradproof.__main__ import main
from gradproof.commands import declared

torch = pytest.importorskip("torch")
gradproof = pytest.importorskip("gradproof")

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
SESSIONS = [pair for block in blocks(TEXT, "console") for pair in sessions(block)]
TOLD = re.findall(r"```python\n([^`]*)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
SHELL = [words for block in blocks(TEXT, "sh") for words in commands(block)]
DEMO = re.findall(r"^show (\d) (\S+)", (ROOT / "examples/demo.sh").read_text(), re.M)


@pytest.fixture
def at_root(monkeypatch):
    """In the repository's folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(ROOT / "examples") in (getattr(sys.modules[name], "__file__", "") or ""):
            del sys.modules[name]


@pytest.fixture
def run(at_root, capsys):
    """A command of gradproof's, in this process: its exit code and what it printed."""

    def call(words):
        capsys.readouterr()
        assert words[0] == "gradproof"
        try:
            code = main(words[1:])
        except SystemExit as left:
            code = left.code
        streams = capsys.readouterr()
        return code, streams.out + streams.err

    return call


def test_every_output_is_what_is_printed(run, request, capsys):
    def printed(command):
        return run(shlex.split(command))[1].rstrip("\n") + "\n"

    def said(code):
        capsys.readouterr()
        run_block(code, {"__name__": "readme"}, "<README.md>")
        return capsys.readouterr().out.strip("\n") + "\n"

    if request.config.getoption("--update-gold"):
        new = rewritten(TEXT, printed, said)
        README.write_text(new, encoding="utf-8", newline="\n")
        return
    for code, expected in TOLD:
        assert same(said(code), expected), f"{code}\n{said(code)}"
    assert SESSIONS
    assert TOLD
    for command, expected in SESSIONS:
        now = printed(command)
        assert same(now, expected), f"$ {command}\n{now}\nand README.md has\n{expected}"


@pytest.mark.parametrize("words", SHELL, ids=" ".join)
def test_every_command_runs(words, run):
    if words[0] == "gradproof":
        wrong = any("wrong/" in word for word in words)
        assert run(words)[0] == int(wrong)
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
    else:
        assert words[:2] == ["pip", "install"]
        extras = re.findall(r"\w+", "".join(re.findall(r"\[(.*)\]", words[2])))
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert set(extras) <= set(project["optional-dependencies"])


@pytest.mark.parametrize(("code", "file"), DEMO)
def test_the_demo_ends_as_it_says(code, file, run):
    assert run(["gradproof", "check", file])[0] == int(code)


def test_every_python_block_runs_and_says_what_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "readme"}
    found = blocks(TEXT, "python")
    assert len(found) > 8
    for number, code in enumerate(found):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            wrong = run_block(code, namespace, f"<README.md block {number}>")
        assert wrong == [], code
    assert (tmp_path / "report.json").stat().st_size > 1000
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_table_of_inputs_can_be_read():
    for written, _ in table(TEXT, "written"):
        (text,) = code_in(written)
        assert samples.parse(text), text


def test_the_defaults_of_a_repository_are_read(tmp_path):
    (toml,) = blocks(TEXT, "toml")
    (tmp_path / "pyproject.toml").write_text(toml)
    found = declared.defaults_near(tmp_path)
    keys = tomllib.loads(toml)["tool"]["gradproof"]
    assert set(keys) == set(declared._KEYS)
    assert (found.seed, found.strict, found.size) == (7, True, {"B": 3, "T": 7})
    assert found.inputs == {"Softplus": "x: f32[B, T]"}


def test_every_keyword_of_check_is_told():
    told = [word for row in table(TEXT, "keyword") for word in code_in(row[0])]
    assert sorted(told) == sorted(
        list(inspect.signature(gradproof.check).parameters)[2:]
    )


def test_every_factor_of_the_ways_is_told():
    from gradproof.adapters.torch_adapt import adapt
    from gradproof.adapters.torch_ways import ways_for

    def both(x, w):
        return x * w, x + w

    image = torch.randn(2, 3, 4, 5)
    factors = {way.factor for way in ways_for(adapt(both, (image, image.clone())))}
    assert {code_in(row[0])[0] for row in table(TEXT, "varied")} == factors


def test_every_slug_that_is_named_exists():
    named = [slug for row in table(TEXT, "what happened") for slug in code_in(row[1])]
    named += re.findall(r"allow\[([a-z-]+)\]|explain ([a-z-]+)", TEXT)[0]
    assert {slug for slug in named if slug} <= set(diagnosis.slugs())


def test_every_example_is_listed_and_every_file_named_exists():
    listed = {code_in(row[0])[0] for row in table(TEXT, "file")}
    assert listed == {path.name for path in (ROOT / "examples").glob("*.py")}
    assert listed == {path.name for path in (ROOT / "examples/wrong").glob("*.py")}
    for path in re.findall(r"(?:benchmarks|examples)/[\w/]+\.py|\]\((\w+\S*)\)", TEXT):
        assert not path or (ROOT / path).exists(), path
    for path in re.findall(r"python (benchmarks/\S+\.py)", TEXT):
        assert (ROOT / path).exists(), path


def test_the_comparison_above_can_fail():
    assert same("worst 1.3e-10 of 12", "worst 1.1e-10 of 12")
    assert not same("worst 1.3e-10 of 12", "worst 1.1e-10 of 13")
    assert not same("worst 1.3e-10 of 12", "least 1.3e-10 of 12")
    assert same("9 of 9, each ± 2e-10 or less", "9 of 9, each ± … or less")
    assert not alike(0.5, 0.6)
    assert run_block("1 + 1  # -> 3", {}, "<a block>") == ["line 1: 2 and not 3"]
    assert run_block("x = 1  # -> 1", {}, "<a block>") == [
        "line 1: nothing is compared"
    ]


class Sine(torch.autograd.Function):
    """Right but for what README.md says that gradproof cannot see."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        gradient = grad_output * torch.cos(x)
        whole = x.numel() // 8 * 8
        gradient = torch.where(x > 6, 2 * gradient, gradient)
        return torch.cat([gradient[:whole], torch.zeros_like(x[whole:])])


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = 1 - torch.tanh(x) ** 2
        return grad_output * torch.where(x > 15, torch.zeros_like(x), slope)


def normal(n):
    return torch.randn(
        n, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )


def test_what_it_cannot_see_is_not_seen():
    """The limits that README.md admits; when one is lifted, the page is to say so."""
    assert gradproof.check(Sine, normal(64)).ok
    assert not gradproof.check(Sine, normal(60)).ok, "another shape"
    assert not gradproof.check(Sine, 10 * normal(64)).ok, "other values"
    x = torch.tensor([20.0, 1.0, -0.5], dtype=torch.float64)
    assert gradproof.check(Tanh, x).ok, "below the rounding of the function"


def test_a_limit_stops_where_a_mismatch_is_a_warning():
    def off(by):
        def backward(grad_output, x):
            return grad_output * np.cos(x) * (1 + by)

        return gradproof.check(np.sin, np.linspace(0.5, 1, 5), vjp=backward)

    assert "1e-07" in TEXT
    assert f"{off(0).detection_limit['uniform']:.1e}" == "1.0e-07"
    assert [f.slug for f in off(1e-8).findings] == ["inexact"]
    assert off(1e-8).ok
    assert not off(5e-7).ok
