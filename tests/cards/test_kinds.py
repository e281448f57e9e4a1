"""Wrong gradients as people write them: found, and called by a name that fits."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
gradproof = pytest.importorskip("gradproof")

from kinds import KINDS  # noqa: E402 - it needs torch

from gradproof.verdict import Severity, Verdict  # noqa: E402


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_a_mistake_is_called_by_its_name(kind):
    report = gradproof.check(kind.rule, kind.inputs(), budget=60)
    errors = [f for f in report.findings if f.severity is Severity.ERROR]
    assert report.verdict is Verdict.FAIL
    assert errors[0].slug in kind.slugs, str(report)
    assert all(f.help.confirmed for f in errors if f.help is not None and f.help.new)
