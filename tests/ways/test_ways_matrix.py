"""Each way catches the rule that is wrong only there; nothing else does.

Whoever deletes a row of the table of ways turns exactly one test of this file red: that
of the rule which is wrong only there.
"""

from __future__ import annotations

import pytest
from ways_planted import FORMS, MEMORY, Right

from gradproof.adapters import torch_present, torch_ways
from gradproof.verdict import Severity

LAYOUTS = [name for name in FORMS if any(name.endswith(f" {m}") for m in MEMORY)]


def without(monkeypatch, name):
    """The table of ways, less the row of that name."""

    def filtered(rows):
        return lambda subject: (w for w in rows(subject) if w.name != name)

    table = tuple(filtered(rows) for rows in torch_ways._TABLE)
    monkeypatch.setattr(torch_ways, "_TABLE", table)


def test_every_row_of_the_table_has_a_rule_that_is_wrong_only_there(asker):
    assert {way.name for way in asker.ways} <= set(FORMS)


@pytest.mark.parametrize("name", FORMS)
def test_the_matrix_is_diagonal(asker, name, monkeypatch):
    form = FORMS[name]()
    rule = asker.rule(form)
    tripped = []
    for way in asker.ways:
        form.state.clear()
        asked = asker.one(rule, way)
        if not asked.agreed:
            tripped.append(way.name)
            assert asked.failure is None
            edits = way.factor == "edits"
            weight = Severity.WARNING if edits else Severity.ERROR
            assert asked.severity is weight
    assert tripped == [name]
    # Nor is it caught by ways that are asked together, once its own is gone.
    assert asker.caught(asker.rule(FORMS[name]())) == [name]
    without(monkeypatch, name)
    assert asker.caught(asker.rule(FORMS[name]())) == []


def test_the_right_rule_trips_nothing(asker):
    rule = asker.rule(Right())
    for way in asker.ways:
        asked = asker.one(rule, way)
        assert asked.agreed, way.name
        assert asked.effects == (), way.name
    assert asker.caught(rule) == []


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_contiguous_slipped_into_the_adapter_is_noticed(asker, name, monkeypatch):
    """The layout tests above turn red: what they plant is no longer caught."""
    original = torch_present.torch_layouts.present

    def packed(t, layout="contiguous", **options):
        return original(t, layout, **options).contiguous().clone()

    monkeypatch.setattr(torch_present.torch_layouts, "present", packed)
    assert asker.caught(asker.rule(FORMS[name]())) == []
