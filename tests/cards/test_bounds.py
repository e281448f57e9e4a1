"""Cards are short and pure, and what they ask for is little and bounded."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from test_layers import TRUE, evidence

import gradproof.diagnosis
from gradproof.diagnosis import diagnose, requests
from gradproof.diagnosis.identify import fit
from gradproof.proof import naming

torch = pytest.importorskip("torch")
gradproof = pytest.importorskip("gradproof")

CARDS = sorted((Path(gradproof.diagnosis.__file__).parent / "cards").glob("[a-z]*.py"))
KNOWN = ("__future__", "gradproof.diagnosis", "gradproof.space", "gradproof.verdict")
PLAIN = ("collections", "dataclasses", "fractions", "itertools", "math", "numpy")


@pytest.mark.parametrize("path", CARDS, ids=lambda p: p.stem)
def test_a_card_is_short_and_knows_only_evidence(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            assert all(a.name.split(".")[0] in PLAIN for a in node.names)
        if isinstance(node, ast.ImportFrom):
            known = node.module.startswith(KNOWN)
            assert known or node.module.split(".")[0] in PLAIN
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "exec", "eval", "print", "input"}


@pytest.mark.parametrize("path", CARDS, ids=lambda p: p.stem)
def test_a_card_has_a_page(path):
    assert path.with_suffix(".md").is_file()


def test_no_card_changes_what_it_looks_at():
    odd = TRUE + np.random.default_rng(3).normal(size=TRUE.shape)
    e = evidence(odd)
    arrays = [e.point, e.value, e.block.implied, e.block.value, e.probes[0].got]
    for a in arrays:
        a.setflags(write=False)
    first, second = diagnose(e), diagnose(e)
    assert first.findings == second.findings
    assert [r.key for r in first.requests] == [r.key for r in second.requests]


def odd_rule(count):
    """A wrong rule without a name, whose forward counts its calls."""

    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            count.append(1)
            ctx.save_for_backward(x, w)
            return torch.sin(x @ w)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return (g @ w.T) * x.cos(), (x.T @ g) * (1 + w * w)

    return Odd


def test_naming_asks_three_times_and_little(monkeypatch):
    count, rounds, spent = [], [], []
    diagnose_, answer = naming.diagnose, naming.answer

    def asked(e):
        rounds.append(1)
        return diagnose_(e)

    def answered(*args):
        before = len(count)
        out = answer(*args)
        spent.append(len(count) - before)
        return out

    monkeypatch.setattr(naming, "diagnose", asked)
    monkeypatch.setattr(naming, "answer", answered)
    drawn = torch.Generator().manual_seed(0)
    inputs = tuple(
        torch.randn(4, 4, dtype=torch.float64, generator=drawn) for _ in range(2)
    )
    gradproof.check(odd_rule(count), inputs)
    assert 1 <= len(rounds) <= 1 + naming.ROUNDS
    # Few columns of each candidate: less than the whole comparison took.
    assert spent
    assert sum(spent) < 0.6 * len(count)


@pytest.mark.parametrize(
    ("once", "plan"), [(1e-4, "thorough"), (1e-2, "quick"), (1, "")]
)
def test_what_would_take_too_long_is_not_asked(once, plan):
    assert naming.Left(once, 16).plan(8, 6, rough=False) == plan


def test_a_busy_machine_spends_the_same():
    left = naming.Left(1e-3, 16)
    while left.plan(8, 4, rough=True):
        pass
    assert 0 <= left.seconds < naming.ANSWER_SECONDS
    assert left.plan(8, 400, rough=True) == ""


def test_requests_are_of_three_kinds():
    assert set(requests.Request.__args__) == {
        requests.At, requests.Block, requests.BlockAt,
    }  # fmt: skip


def test_formulas_are_found_among_very_many_arrays():
    """Two hundred arrays beside each entry: half a million products of two functions."""
    rng = np.random.default_rng(4)
    seen = {f"a{k}": rng.uniform(0.5, 1.5, 40) for k in range(200)}
    target = -2.0 * seen["a17"] * seen["a150"]
    found = fit(target, 1e-10 * np.abs(target), seen)
    assert found is not None
    assert found.text == "-2 · a17 · a150" or found.text == "-2 · a150 · a17"
    assert fit(rng.normal(size=40), np.full(40, 1e-10), seen) is None
