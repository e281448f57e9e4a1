"""The table of ways and its covering array, without running anything."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradproof.adapters import torch_ways
from gradproof.adapters.torch_adapt import adapt
from gradproof.adapters.torch_covering import RUNS
from gradproof.adapters.torch_presentation import Presentation, TorchWay
from gradproof.adapters.torch_ways import asked_together, covering, merged, ways_for
from gradproof.verdict import Severity


def rule_of(fn, *shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(s, generator=generator, dtype=dtype) for s in shapes]
    return adapt(fn, tuple(made))


def names(rule, factor=None):
    return [w.name for w in ways_for(rule) if factor in (None, w.factor)]


def a_way(rule, name):
    return next(w for w in ways_for(rule) if w.name == name)


def two(x, w):
    return x * w, x + w


def test_the_ways_of_a_function_of_one_row():
    rule = rule_of(lambda x: x.sin(), (5,))
    assert names(rule) == [
        "grad_output sliced",
        "grad_output offset",
        "grad_output unaligned",
        "grad_output expanded from a scalar",
        "x sliced",
        "x offset",
        "x unaligned",
        "x expanded",
        "asked twice in a row",
        "backward twice through one graph",
        "two graphs interleaved",
        "backward after another forward",
        "result kept while another is computed",
        "through .backward()",
        "under create_graph",
        "under checkpoint",
        "with batched grad_outputs",
        "under torch.func.vjp",
        "x edited in place before backward",
        "under vmap",
        "under vmap, batched along the last axis",
        "under autocast",
    ]


def test_a_matrix_can_be_transposed_and_expanded_along_an_axis():
    rule = rule_of(lambda x: x.sin(), (3, 4))
    assert names(rule, "grad_output layout") == [
        "grad_output transposed",
        "grad_output sliced",
        "grad_output offset",
        "grad_output unaligned",
        "grad_output expanded along axis 1",
        "grad_output expanded from a scalar",
    ]
    assert "x expanded along axis 0" in names(rule, "input layout")


def test_images_can_be_channels_last():
    rule = rule_of(lambda x: x.sin(), (2, 3, 4, 5))
    assert "grad_output channels last" in names(rule)
    assert "x channels last" in names(rule)


def test_what_was_given_transposed_is_asked_contiguous_too():
    rule = adapt(torch.sin, (torch.randn(4, 3, dtype=torch.float64).t(),))
    assert any(re.search(" contiguous$", name) for name in names(rule, "input layout"))


def test_a_scalar_output_has_no_expanded_cotangent():
    rule = rule_of(lambda x: x.sum(), (3,))
    assert names(rule, "grad_output layout") == [
        "grad_output offset",
        "grad_output unaligned",
    ]


def test_several_outputs_are_told_apart_and_left_unused():
    rule = rule_of(two, (3,), (3,))
    assert "grad_output[1] sliced" in names(rule)
    assert names(rule, "unused output") == ["out[0] unused", "out[1] unused"]


def test_of_three_outputs_each_is_used_alone_too():
    rule = rule_of(lambda x: (x, 2 * x, 3 * x), (3,))
    assert names(rule, "unused output") == [
        "out[0] unused",
        "out[1] unused",
        "out[2] unused",
        "only out[0] used",
        "only out[1] used",
        "only out[2] used",
    ]


@pytest.mark.parametrize(("n", "count"), [(1, 0), (2, 2), (3, 6), (5, 30), (6, 12)])
def test_all_subsets_of_five_inputs_then_each_alone_and_each_frozen(n, count):
    rule = rule_of(lambda *xs: sum(xs), *[(2,)] * n)
    needs = [w.presentation.needs for w in ways_for(rule) if w.factor == "needs grad"]
    assert len(set(needs)) == len(needs) == count


def test_subsets_are_named_by_what_is_short():
    rule = rule_of(lambda a, b, c, d: a + b + c + d, *[(2,)] * 4)
    found = names(rule, "needs grad")
    assert "only b requires grad" in found
    assert "b frozen" in found
    assert "only a and c require grad" in found


def test_inputs_of_one_shape_may_be_one_tensor():
    rule = rule_of(lambda a, b, c: a * b * c.sum(), (3,), (3,), (4,))
    assert names(rule, "aliasing") == ["one tensor as both a and b"]


def test_parameters_are_not_passed_as_one_tensor():
    rule = adapt(torch.nn.Linear(3, 3).double(), (torch.ones(3, dtype=torch.float64),))
    assert names(rule, "aliasing") == []


def test_vmap_batches_all_inputs_and_each_alone():
    rule = rule_of(two, (3,), (3,))
    assert names(rule, "vmap") == [
        "with batched grad_outputs",
        "under vmap",
        "under vmap, batched along the last axis",
        "under vmap over x alone",
        "under vmap over w alone",
    ]


class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


class New(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def test_what_torch_func_refuses_is_asked_once():
    old, new = rule_of(Old, (3,)), rule_of(New, (3,))
    assert "under torch.func.vjp" in names(old)
    assert names(old, "vmap") == ["with batched grad_outputs"]
    assert names(new, "vmap") == ["with batched grad_outputs", "under vmap"]


def test_complex_numbers_are_not_asked_under_autocast():
    rule = rule_of(lambda z: z * z, (3,), dtype=torch.complex128)
    assert "under autocast" not in names(rule)


def test_the_compiler_is_asked_only_on_demand():
    rule = rule_of(torch.sin, (3,))
    assert "under torch.compile" not in names(rule)
    assert [w.name for w in rule.compiled("eager")] == ["under torch.compile"]


def test_what_each_way_is_called_when_it_differs_or_raises():
    rule = rule_of(two, (3, 4), (3, 4))
    said = {
        (w.factor, w.slug, w.raised, w.raised_severity.value) for w in ways_for(rule)
    }
    assert said == {
        ("grad_output layout", "layout-assumed", "layout-assumed", "error"),
        ("input layout", "layout-assumed", "layout-assumed", "warning"),
        ("calls", "stale-state", "stale-state", "error"),
        ("calls", "stale-state", "stale-state", "warning"),
        ("calls", "reused-buffer", "reused-buffer", "error"),
        ("needs grad", "subset-dependent", "subset-dependent", "error"),
        ("unused output", "undefined-cotangent", "undefined-cotangent", "error"),
        ("aliasing", "aliased-inputs", "aliased-inputs", "warning"),
        ("engine", "accumulates-in-place", "accumulates-in-place", "error"),
        ("engine", "mode-dependent", "unsupported-transform", "note"),
        ("engine", "stale-state", "unsupported-transform", "note"),
        ("edits", "stale-state", "", "error"),
        ("vmap", "wrong-vmap", "unsupported-transform", "note"),
        ("autocast", "autocast-mismatch", "autocast-mismatch", "warning"),
    }
    mild = {w.factor for w in ways_for(rule) if w.severity is not Severity.ERROR}
    assert mild == {"edits"}


def test_names_are_unique():
    found = names(rule_of(two, (2, 3, 4, 5), (2, 3, 4, 5)))
    assert len(set(found)) == len(found)


# --- places, folds, covers


def test_a_way_of_stride_zero_makes_its_numbers_constant():
    rule = rule_of(lambda x: x.sin(), (2, 3))
    x, ybar = np.arange(6.0), np.arange(6.0) + 10
    way = a_way(rule, "grad_output expanded along axis 1")
    same, placed = way.place(x, ybar)
    assert (same == x).all()
    assert placed.tolist() == [10, 10, 10, 13, 13, 13]
    assert ybar[1] == 11  # the question itself is not touched
    way = a_way(rule, "grad_output expanded from a scalar")
    assert way.place(x, ybar)[1].tolist() == [10] * 6


def test_an_expanded_input_answers_for_what_is_in_memory():
    rule = rule_of(lambda x: x.sin(), (2, 3))
    way = a_way(rule, "x expanded along axis 0")
    x, _ = way.place(np.arange(6.0), np.ones(6))
    assert x.tolist() == [0, 1, 2, 0, 1, 2]
    assert way.fold(np.arange(6.0)).tolist() == [3, 5, 7, 0, 0, 0]
    assert way.covers.tolist() == [True] * 3 + [False] * 3


def test_an_unused_output_is_a_zero_cotangent():
    rule = rule_of(two, (2,), (2,))
    _, ybar = a_way(rule, "out[1] unused").place(np.ones(4), np.ones(4))
    assert ybar.tolist() == [1, 1, 0, 0]


def test_one_tensor_in_two_places_gets_both_gradients():
    rule = rule_of(two, (2,), (2,))
    way = a_way(rule, "one tensor as both x and w")
    x, _ = way.place(np.arange(4.0), np.ones(4))
    assert x.tolist() == [0, 1, 0, 1]
    assert way.fold(np.arange(4.0)).tolist() == [2, 4, 0, 0]
    assert way.covers.tolist() == [True, True, False, False]


def test_a_frozen_input_is_not_compared():
    rule = rule_of(two, (2,), (2,))
    assert (
        a_way(rule, "only w requires grad").covers.tolist() == [False] * 2 + [True] * 2
    )


# --- the covering array

CASES = [
    (lambda x: x.sin(), [(5,)]),
    (lambda x: x.sin(), [(3, 4)]),
    (two, [(3, 4), (3, 4)]),
    (two, [(2, 3, 4, 5), (2, 3, 4, 5)]),
    (lambda a, b, c, d, e: a + b + c + d + e, [(2, 3, 4, 5)] * 5),
]


@pytest.mark.parametrize(("fn", "shapes"), CASES)
def test_the_array_covers_every_way_once_in_at_most_eight_runs(fn, shapes):
    ways = ways_for(rule_of(fn, *shapes))
    groups = covering(ways)
    listed = [w for group in groups for w in group]
    assert sorted(map(id, listed)) == sorted(map(id, ways))
    together = [g for g in groups if len(g) > 1 or mergeable(g[0])]
    assert len(together) <= RUNS == 8


def mergeable(way):
    return way.factor in ("grad_output layout", "input layout", "calls")


def test_given_strides_keep_the_array_within_eight_runs():
    x = torch.randn(2, 5, 4, 3, dtype=torch.float64).permute(0, 3, 2, 1)
    groups = covering(ways_for(adapt(torch.sin, (x,))))
    assert sum(mergeable(g[0]) for g in groups) <= RUNS


@pytest.mark.parametrize(("fn", "shapes"), CASES)
def test_a_group_has_one_value_of_each_factor(fn, shapes):
    for way in asked_together(ways_for(rule_of(fn, *shapes))):
        for part in way.parts:
            p = part.presentation
            whole = way.presentation
            assert p.calls in ("once", whole.calls)
            for mine, all_ in (
                (p.cotangent, whole.cotangent),
                (p.inputs, whole.inputs),
            ):
                wanted = [w for w in mine.split(",") if w != "contiguous"]
                assert all(w in all_.split(",") for w in wanted)


def test_ways_that_narrow_the_comparison_or_ask_elsewhere_are_alone():
    ways = ways_for(rule_of(two, (3,), (3,)))
    for group in covering(ways):
        if not mergeable(group[0]):
            assert len(group) == 1


def test_layouts_of_stride_zero_are_not_mixed_with_dense_ones():
    for group in covering(ways_for(rule_of(two, (3, 4), (3, 4)))):
        kinds = {"expanded" in way.name for way in group}
        assert len(kinds) == 1


def test_each_layout_of_x_is_met_with_a_packed_cotangent_once():
    groups = covering(ways_for(rule_of(lambda x: x.sin(), (3, 4))))
    factors = [{w.factor for w in g} for g in groups]
    assert any("input layout" in f and "grad_output layout" not in f for f in factors)
    assert any("grad_output layout" in f and "input layout" not in f for f in factors)


def test_merging_combines_presentations_places_folds_and_covers():
    rule = rule_of(two, (2, 3), (2, 3))
    one, other = (
        a_way(rule, "x expanded along axis 0"),
        a_way(rule, "w expanded along axis 0"),
    )
    ybar = a_way(rule, "grad_output[1] expanded from a scalar")
    way = merged((one, other, ybar))
    assert way.parts == (one, other, ybar)
    assert way.name == (
        "x expanded along axis 0, w expanded along axis 0, "
        "grad_output[1] expanded from a scalar"
    )
    assert way.presentation == Presentation(
        cotangent="contiguous,scalar expand",
        inputs="expanded along axis 0,expanded along axis 0",
    )
    x, y = way.place(np.arange(12.0), np.arange(12.0))
    assert x.tolist() == [0, 1, 2, 0, 1, 2, 6, 7, 8, 6, 7, 8]
    assert y.tolist() == [0, 1, 2, 3, 4, 5] + [6] * 6
    assert way.fold(np.ones(12)).tolist() == [2, 2, 2, 0, 0, 0] * 2
    assert way.covers.tolist() == ([True] * 3 + [False] * 3) * 2
    assert way.slug == "layout-assumed"


def test_merging_keeps_calls_and_the_mildest_severity():
    rule = rule_of(lambda x: x.sin(), (3, 4))
    way = merged(
        (
            a_way(rule, "grad_output sliced"),
            a_way(rule, "backward twice through one graph"),
        )
    )
    assert way.presentation == Presentation(cotangent="sliced", calls="retained")
    assert way.raised_severity is Severity.WARNING
    assert way.factor == "grad_output layout and calls"


def test_a_group_of_one_is_the_way_itself():
    way = TorchWay("a", "b", "c")
    assert merged((way,)) is way


def test_a_new_way_is_one_entry(monkeypatch):
    """What the contributor's page shows: one more row, and it is asked."""

    def conjugated(subject):
        yield TorchWay(
            "grad_output conjugated",
            "grad_output layout",
            "layout-assumed",
            presentation=replace(Presentation(), cotangent="contiguous"),
        )

    monkeypatch.setattr(torch_ways, "_TABLE", (*torch_ways._TABLE, conjugated))
    assert "grad_output conjugated" in names(rule_of(torch.sin, (3,)))


def test_of_many_inputs_all_are_edited_at_once():
    rule = rule_of(lambda *ts: sum(ts), *[(3,)] * 6)
    assert names(rule, "edits") == ["every input edited in place before backward"]
    few = rule_of(lambda *ts: sum(ts), *[(3,)] * 5)
    assert len(names(few, "edits")) == 5
