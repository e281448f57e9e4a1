"""A forward that raises now and then is no function, and says nothing of its backward."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from gradproof.diagnosis.raised import quoted
from gradproof.rule import Primal
from gradproof.space import Vector
from gradproof.verdict import Code, Evidence, Severity, Undecided

CALLS, SECONDS, LEAST = 256, 0.3, 8  # of the same question, until one raises
DETAIL = "f(x) raised in 1 of {calls} calls at the same x: {failure}"
DECIDE = (
    "make the forward succeed whenever it is called at these inputs (more iterations, "
    "reset=), then check again"
)


def suspected(evidence: Evidence) -> bool:
    """Whether something raised that might have been the forward alone."""
    return evidence.nondeterministic == float("inf") or any(
        a.failure is not None and a.severity is not Severity.NOTE
        for a in evidence.asked
    )


def raising(primal: Primal, x: Vector) -> tuple[Undecided, ...]:
    """Undecided since the forward, which gave a value at ``x``, also raises there."""
    started = time.perf_counter()
    for calls in range(1, CALLS + 1):
        failure = primal.value(x).failure
        if failure is not None:
            detail = DETAIL.format(calls=calls, failure=quoted(failure))
            return (Undecided("stateful-forward", "", detail, DECIDE),)
        if calls >= LEAST and time.perf_counter() - started > SECONDS:
            break
    return ()


def without(evidence: Evidence) -> Evidence:
    """``evidence`` without what an exception of the forward may have made of it."""
    block = evidence.block
    if block is not None:
        lost = np.isnan(block.implied)
        code = np.where(lost, np.int8(Code.UNMEASURED), block.code)
        block = replace(block, code=code)
    return replace(
        evidence,
        block=block,
        probes=tuple(p for p in evidence.probes if np.isfinite(p.got).all()),
        failure=None,
        stateful="",
        nondeterministic=0.0,
        odd_calls=(0, 0),
        asked=tuple(a for a in evidence.asked if a.agreed),
        elsewhere=tuple(e for e in evidence.elsewhere if e.failure is None),
    )
