"""A wrong part of a gradient too large to be formed is named by its path and slice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from locating_rules import Plant, banded, opaque, scaled

import gradproof
from gradproof.verdict import Severity, Verdict


def _checked(kind: str, plant: Plant, *shapes: tuple[int, ...], **more: Any) -> Any:
    generator = torch.Generator().manual_seed(3)
    dtype = more.get("dtype", torch.float64)
    xs = tuple(
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        for shape in shapes
    )
    return gradproof.check(opaque(kind, plant), xs, ways=False)


def _headlines(report: Any) -> str:
    assert report.verdict is Verdict.FAIL, report
    errors = [f for f in report.findings if f.severity is Severity.ERROR]
    assert len(errors) == 1
    worst = errors[0].worst
    return f"{errors[0].headline}; {worst.place if worst else ''}"


ROWWISE = {
    "tail of a block": (scaled((..., slice(62, None)), 0.0), "x[:, 62:]"),
    "one row": (scaled((17,), 0.0), "x[17, :]"),
    "one column": (scaled((..., 5), 1.5), "x[:, 5]"),
    "every second": (scaled((..., slice(0, None, 2)), 0.5), "x[:, 0::2]"),
    "one entry": (scaled((3, 7), 1.5), "x[3, 7]"),
    "the diagonal": (banded(0, 1.5), "the diagonal of x"),
    "a band": (banded(1, 1.5), "the band of width 3 along the diagonal of x"),
}


@pytest.mark.parametrize("kind", ["softmax", "running"])
@pytest.mark.parametrize("place", list(ROWWISE))
def test_a_region_of_a_matrix_is_named(kind: str, place: str) -> None:
    plant, name = ROWWISE[place]
    assert name in _headlines(_checked(kind, plant, (70, 70)))


@pytest.mark.parametrize(
    ("index", "name"),
    [
        ((2,), "x[2, :, :, :]"),
        ((slice(None), 1), "x[:, 1, :, :]"),
        ((slice(1, None),), "x[1:, :, :, :]"),
        ((..., slice(60, None)), "x[:, :, :, 60:]"),
    ],
    ids=["batch item", "head", "batch items 1 and up", "tail"],
)
def test_a_batch_item_a_head_and_a_tail_are_named(index: Any, name: str) -> None:
    report = _checked("softmax", scaled(index, 0.5), (3, 2, 6, 70))
    assert name in _headlines(report)


def test_a_channel_of_an_elementwise_operation_is_named() -> None:
    report = _checked("sin", scaled((slice(None), 3), 0.5), (2, 8, 12, 12))
    assert "x[:, 3, :, :]" in _headlines(report)


@pytest.mark.parametrize("leaf", range(5))
def test_the_wrong_input_of_five_is_named(leaf: int) -> None:
    report = _checked("five", scaled((slice(None),), 1.5, leaf), *[(600,)] * 5)
    name = "x" if leaf == 0 else f"more[{leaf - 1}]"
    assert f"gradient of {name};" in _headlines(report)


@pytest.mark.parametrize("place", ["tail of a block", "one row", "every second"])
def test_in_float32_that_cannot_be_lifted(place: str) -> None:
    plant, name = ROWWISE[place]
    report = _checked("softmax", plant, (70, 70), dtype=torch.float32)
    assert name in _headlines(report)


def test_two_columns_far_apart_are_both_found() -> None:
    plant = scaled((slice(None), [5, 60]), 1.5)
    report = _checked("running", plant, (70, 70))
    (place,) = report.record.evidence.located
    mask = place.mask.reshape(70, 70)
    assert place.solid
    assert mask[:, [5, 60]].all()
    assert mask.sum() == 140


def _one_entry(grads: list[torch.Tensor]) -> list[torch.Tensor]:
    out = grads[0].clone()
    out[321, 5] *= 1.5
    return [out]


def test_one_entry_of_narrow_rows_is_found() -> None:
    report = _checked("softmax", _one_entry, (600, 8))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].worst is not None
    assert report.findings[0].worst.place == "grad of x[321, 5]"
    assert "direction-cotangent pairs" in report.record.compared


def test_a_right_rule_passes_with_limits_by_row_and_entry() -> None:
    report = _checked("softmax", lambda grads: grads, (40, 300))
    assert report.verdict is Verdict.PASS
    limits = report.detection_limit
    assert limits["uniform"] < limits["one row"] < limits["one entry"] < 1e-2
