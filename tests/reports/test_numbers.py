"""Digits that the bar supports; ASCII for every sign."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradproof.reports import numbers
from gradproof.reports.charset import supports_unicode, to_ascii

nan, inf = math.nan, math.inf


@pytest.mark.parametrize(
    ("value", "bar", "shown"),
    [
        (0.8175744761936437, 2.2e-12, "0.817574476194"),
        (0.5, 1e-12, "0.500000000000"),
        (0.5, 0.3, "0.5"),
        (12.5, 3.0, "12"),
        (123456.0, 100.0, "123456"),
        (1.0, 1e-30, "1.000000000000000"),
        (0.0, nan, "0.00000"),
        (0.25, 0.0, "0.25"),
        (3.0, 0.0, "3"),
        (1 / 3, 0.0, "0.3333333333333"),
        (3e-22, 1e-24, "3.00e-22"),
        (2e9, 0.1, "2.0000000000e+09"),
        (9.9999e6, nan, "9999900"),
        (nan, 1e-3, "nan"),
        (-inf, 1e-3, "-inf"),
        (1e300, inf, "1.00000e+300"),
    ],
)
def test_digits(value, bar, shown):
    assert numbers.digits(value, bar) == shown


@pytest.mark.parametrize(
    ("values", "bar", "shown"),
    [
        ((0.25, -1.5), 1e-3, (" 0.250", "-1.500")),
        ((1e-22, 3.4e-20), 1e-24, ("0.0100e-20", "3.4000e-20")),
        ((nan, -2.5), 0.1, ("nan", "-2.5")),
        ((-inf, 2.5), 0.1, ("-inf", "2.5")),
        ((nan, -12.5), 0.0, ("nan", "-12.5")),
        ((0.25, 0.0), 0.0, ("0.25", "0.00")),
        ((1.0, 1.0 + 1e-13), 1e-3, ("1.0000000000000", "1.0000000000001")),
        ((100.0, 1.0), 0.1, ("100.0", "  1.0")),
        ((1e308, -1e308), nan, (" 1.00000e+308", "-1.00000e+308")),
    ],
)
def test_column(values, bar, shown):
    assert numbers.column(values, bar) == shown


finite = st.floats(-1e300, 1e300)


@given(finite, finite, st.floats(0, 1e300))
def test_different_numbers_are_printed_apart(a, b, bar):
    left, right = numbers.together((a, b), bar)
    top = max(abs(a), abs(b))
    if abs(a - b) > 1e-14 * top:
        assert left != right
    assert float(left) == pytest.approx(a, abs=top * 1e-4 + bar)


@given(finite, finite, st.floats(0, 1e300))
def test_columns_align_on_the_point(a, b, bar):
    left, right = numbers.column((a, b), bar)
    ends = {
        len(text) if not set(text) & set(".e") else min(
            text.index(c) for c in ".e" if c in text)
        for text in (left, right)
    }  # fmt: skip
    assert len(ends) == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2.1e-9, "2.1e-09"), (3e-7, "3e-07"), (0.02, "0.02"), (0.0, "0"), (inf, "inf"),
     (nan, "nan"), (150.0, "1.5e+02"), (1.0, "1"), (12.34, "12")],
)  # fmt: skip
def test_small(value, shown):
    assert numbers.small(value) == shown


def test_counts_and_shapes():
    assert numbers.count(9_999) == "9999"
    assert numbers.count(1_048_576) == "1 048 576"
    assert numbers.plural(1, "entry", "entries") == "1 entry"
    assert numbers.plural(0, "vjp") == "0 vjps"
    assert numbers.shape((3, 5)) == "[3, 5]"
    assert numbers.shape(()) == "[]"
    assert numbers.shape(tuple(range(2, 12))) == "[2, 3, 4, …, 9, 10, 11]"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.1234, "0.12 s"), (12.4, "12 s"), (421.2, "7 min 1 s"), (0.0, "0 s")],
)
def test_duration(seconds, shown):
    assert numbers.duration(seconds) == shown


@pytest.mark.parametrize(
    ("text", "ascii"),
    [
        ("x̄[2, 0] is 0.5", "grad_x[2, 0] is 0.5"),
        ("ȳ ⊙ x̄, y\u0304", "grad_output * grad_x, grad_output"),
        ("ȳ₂ ẋ", "grad_output_2 tangent_x"),
        ("1.5 ± 2 × 10⁻⁶", "1.5 +/- 2 x 10^-6"),
        ("⟨ȳ, Jᵀ u⟩ ≥ 0", "<grad_output, J^T u> >= 0"),
        ("λ Δ ϵ Ω", "lambda Delta epsilon Omega"),
        ("a ≠ b ≤ c → d …", "a != b <= c -> d ..."),
        ("é ½ ∂y/∂x", "e 1/2 dy/dx"),
        ("世", "\\u4e16"),
        ("e\u0301", "e"),
        ("plain", "plain"),
    ],
)
def test_ascii(text, ascii):
    assert to_ascii(text) == ascii


@given(st.text())
def test_ascii_is_ascii_whatever_the_text(text):
    once = to_ascii(text)
    assert once.isascii()
    assert to_ascii(once) == once


@pytest.mark.parametrize(
    ("encoding", "able"),
    [("utf-8", True), ("ascii", False), ("cp1252", False), ("latin-1", False)],
)
def test_supports_unicode(encoding, able):
    assert supports_unicode(io.TextIOWrapper(io.BytesIO(), encoding)) is able


def test_a_stream_of_no_or_unknown_encoding_gets_ascii():
    class Odd:
        encoding = "martian"

    assert not supports_unicode(Odd())
    assert not supports_unicode(object())
