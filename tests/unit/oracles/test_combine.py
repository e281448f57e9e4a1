"""A witness narrows what it agrees with, and touches nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gradproof.oracles import combine
from gradproof.verdict import Code, Estimate


def estimate(code: tuple[int, ...] = (0, 0, 0, 0)) -> Estimate:
    return Estimate(
        value=np.array([1.0, 1.0, 1.0, 1.0]),
        bar=np.array([0.1, 0.1, 0.1, 0.1]),
        bound=np.array([0.4, 0.4, 0.4, 0.4]),
        noise=np.zeros(4),
        code=np.array(code, dtype=np.int8),
    )


ERROR = np.full(4, 1e-6)


def test_agreement_narrows() -> None:
    out = combine(estimate(), np.full(4, 1.05), ERROR)
    assert (out.value == 1.05).all()
    assert (out.bar == 1e-6).all()
    assert (out.bound < 0.4).all()
    assert (out.bound >= 0.05).all()


def test_disagreement_and_missing_answers_change_nothing() -> None:
    e = estimate((0, Code.KINK, Code.NOISE, 0))
    out = combine(e, np.array([1.3, 1.0, 1.0, np.nan]), ERROR)
    for name in ("value", "bar", "bound", "code"):
        assert (getattr(out, name) == getattr(e, name)).all()


def test_a_coarse_witness_changes_nothing() -> None:
    out = combine(estimate(), np.full(4, 1.05), np.full(4, 0.2))
    assert (out.value == 1.0).all()
    assert (out.bar == 0.1).all()


@given(st.floats(-10, 10), st.floats(0, 10))
def test_never_wider(value: float, error: float) -> None:
    e = estimate()
    out = combine(e, np.full(4, value), np.full(4, error))
    assert (out.bar <= e.bar).all()
    assert (out.bound <= e.bound).all()
    assert (out.bound >= out.bar).all()
