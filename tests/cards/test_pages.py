"""Each card's page is its documentation and its test: wrong block named, right block not."""

from __future__ import annotations

import importlib.util
import linecache
import re
import sys
from pathlib import Path

import pytest
from told import told

from gradproof.diagnosis import explain, nearest, slugs, summary
from gradproof.diagnosis.card import cards
from gradproof.diagnosis.pages import REASONS
from gradproof.verdict import Severity, Verdict

torch = pytest.importorskip("torch")
gradproof = pytest.importorskip("gradproof")

BLOCK = re.compile(r"^```python( no-run)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MISTAKES = sorted({card.slug for card in cards()})
RUN = [s for s in MISTAKES if "```python\n" in explain(s)]


def reports(text: str, folder: Path, monkeypatch) -> list:
    """What ``check`` said in a block, in order; run as a file, so that it has lines."""
    seen = []
    check = gradproof.check

    def noted(*args, **kwargs):
        seen.append(check(*args, **kwargs))
        return seen[-1]

    monkeypatch.setattr(gradproof, "check", noted)
    file = folder / "page.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"page_{abs(hash(text))}", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    torch.manual_seed(0)
    linecache.checkcache()
    spec.loader.exec_module(module)
    monkeypatch.undo()
    return seen


@pytest.mark.parametrize("slug", RUN)
def test_the_wrong_block_is_named_and_the_right_one_is_not(
    slug, tmp_path, monkeypatch, gold
):
    for name in "ab":
        (tmp_path / name).mkdir()
    wrong, right = (code for _, code in BLOCK.findall(explain(slug)))
    (bad,) = reports(wrong, tmp_path / "a", monkeypatch)
    assert bad.findings, "nothing found in the wrong block"
    assert bad.findings[0].slug == slug
    assert slug in str(bad)
    gold(f"cards/{slug}", told(bad.findings[0]))
    (good,) = reports(right, tmp_path / "b", monkeypatch)
    left = [
        f for f in good.findings if f.severity is not Severity.NOTE and not f.allowed
    ]
    assert left == []
    assert good.verdict in (
        {Verdict.PASS} if not good.findings else {Verdict.PASS, Verdict.UNDECIDED}
    )


@pytest.mark.parametrize("slug", sorted(MISTAKES))
def test_a_page_has_its_four_parts(slug):
    text = explain(slug)
    assert text.startswith(f"# {slug}\n")
    parts = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert parts == ["Why an ordinary test passes it", "Example", "Use instead"]
    assert len(BLOCK.findall(text)) == 2


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_says_what_would_decide_it(reason):
    if reason in MISTAKES:
        return
    parts = re.findall(r"^## (.*)$", explain(reason), re.MULTILINE)
    assert parts == ["Why it is not decided", "What would decide it"]


def test_slugs_are_the_cards_and_the_reasons():
    assert set(slugs()) == set(MISTAKES) | set(REASONS)


@pytest.mark.parametrize("slug", slugs())
def test_a_summary_is_a_sentence_without_markup(slug):
    text = summary(slug)
    assert len(text) > 20
    assert not text.startswith("#")
    assert text.endswith(".")
    assert text.count("`") % 2 == 0
    assert text.count("(") == text.count(")")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("dropped-cotangent", "dropped-cotangent"),
        ("droped-cotangent", "dropped-cotangent"),
        ("Wrong_Sign", "wrong-sign"),
        ("straight through", "straight-through"),
        ("nan gradients", "nan-gradient"),
        ("kinks", "kink"),
    ],
)
def test_nearest_finds_what_was_meant(word, meant):
    assert nearest(word) == meant


def test_an_unknown_slug_has_no_page():
    with pytest.raises(KeyError):
        explain("no-such-mistake")
