"""Examples by name with their inputs, and Functions made of a forward alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch

import gradproof
from gradproof.verdict import Verdict

TESTS = Path(__file__).resolve().parents[1]


def module(path: Path, name: str):
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


expected = module(TESTS / "examples" / "expected.py", "suggest_expected")
ROWS = {row.name: row for row in expected.TABLE}


def example(name, *, wrong=False):
    """The Function of one example file."""
    folder = TESTS.parent / "examples"
    path = (folder / "wrong" if wrong else folder) / f"{name}.py"
    return getattr(module(path, f"suggest_{wrong}_{name}"), ROWS[name].target)


def drawn(name, size):
    return ROWS[name].draw(torch.float64, size, seed=size)


class Unwritten(torch.autograd.Function):
    """A backward that gives nothing; the suggestion replaces it."""

    @staticmethod
    def backward(ctx, grad_output):
        return None


def function(forward, name="Op"):
    """An autograd.Function with ``forward(ctx, ...)`` and no right backward."""
    return type(name, (Unwritten,), {"forward": staticmethod(forward)})


def passes(cls, inputs):
    report = gradproof.check(cls, inputs, ways=False)
    assert report.verdict is Verdict.PASS, str(report)


def why_not(cls, inputs, **more):
    report = gradproof.check(cls, inputs, suggest=True, ways=False, **more)
    assert report.suggestion == ""
    return report.record.no_suggestion
