"""Gradients where an input is infinite: of a masked score, say, which is −∞.

No difference can be taken there. But a function that is finite at ±∞, and comes ever
nearer to that value as its input grows, is flat there: its derivative is 0 in the limit,
and a gradient that is NaN or another number is wrong.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.checks.gradient import Compared, probe_of
from gradproof.oracles import Differences
from gradproof.space import Mask, Vector, largest
from gradproof.verdict import Code, Undecided

FAR = (2.0**8, 2.0**11, 2.0**14)  # how far out, in units of its leaf's finite numbers
NEAR = 1e-3  # of the largest output: how near to its value at ∞ the last one must be
WHERE = "the inputs that are infinite"
DETAIL = (
    "the function is finite there and does not settle as the input grows, and the rule "
    "gives {number}"
)
DECIDE = "check at finite inputs, or mask the entries with a finite number"


def at_infinity(oracle: Differences, found: Compared) -> Compared:
    """``found``, its columns at infinite inputs answered by limits."""
    b = found.block
    shape = (len(oracle.value), len(oracle.point))
    if b is None or b.code.shape != shape or not np.isinf(oracle.point).any():
        return found
    value, bound, code = b.value.copy(), b.bound.copy(), b.code.copy()
    # 0 · NaN is NaN: beside an output without a value no gradient need have one.
    spoilt = ~np.isfinite(b.implied) & (not np.isfinite(oracle.value).all())
    for j in np.flatnonzero(np.isinf(oracle.point)):
        flat, room = _limit(oracle, int(j))
        flat &= ~spoilt[:, j]
        value[flat, j], bound[flat, j], code[flat, j] = 0.0, room[flat], Code.OK
    block = replace(b, value=value, bound=bound, bar=np.fmin(b.bar, bound), code=code)
    block = replace(block, own=np.where(np.isfinite(b.own), b.own, 0.0))
    probes = tuple(
        probe_of(block, p.point, p.cotangent, p.got, p.own) for p in found.probes
    )
    return replace(found, block=block, probes=probes)


def _limit(oracle: Differences, j: int) -> tuple[Mask, Vector]:
    """Outputs that are flat where x_j is infinite, and what their slope may still be."""
    domain, x = oracle.primal.domain, oracle.point
    leaf = next(a for a in domain if a.start <= j < a.start + a.size)
    nothing = np.zeros(len(oracle.value), dtype=bool), np.zeros(len(oracle.value))
    finite = np.abs(x[leaf.slice])
    size = max(1.0, float(finite[np.isfinite(finite)].max(initial=0.0)))
    if leaf.pattern or not FAR[-1] * size < largest(leaf.precision):
        return nothing
    gaps = []
    for far in FAR:
        at = x.copy()
        at[j] = np.copysign(far * size, x[j])
        if not leaf.low <= at[j] <= leaf.high:
            return nothing
        with np.errstate(invalid="ignore"):
            gaps.append(np.abs(oracle.ask(at) - oracle.value))
    top = np.abs(oracle.value[np.isfinite(oracle.value)]).max(initial=0.0)
    rounding = 64.0 * oracle.unit * top
    with np.errstate(invalid="ignore"):
        flat = (gaps[1] <= gaps[0]) & (gaps[2] <= gaps[1]) & (gaps[2] <= NEAR * top)
        flat |= np.maximum.reduce(gaps) <= rounding
    flat &= np.isfinite(oracle.value)
    return flat, (gaps[2] + rounding) / (FAR[-1] * size)


def untested(found: Compared, x: Vector, value: Vector) -> tuple[Undecided, ...]:
    """Undecided where a rule gives a number, or NaN, of which no limit is known."""
    b = found.block
    if b is None or b.code.shape != (len(value), len(x)) or not np.isinf(x).any():
        return ()
    open_ = np.isinf(x)[None, :] & np.isfinite(value)[:, None] & (b.code != Code.OK)
    open_ &= (b.implied != 0) & np.isfinite(value).all()
    if not open_.any():
        return ()
    i, j = (int(k) for k in np.argwhere(open_)[0])
    detail = DETAIL.format(number=f"{b.implied[i, j]:.6g}")
    return (Undecided("domain", WHERE, detail, DECIDE, int(open_.sum())),)
