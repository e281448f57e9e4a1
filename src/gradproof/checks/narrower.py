"""A large rule asked once more in a narrower dtype, on its framework's own arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from gradproof.checks.settings import ALIKE, GROSS
from gradproof.checks.slabs import slabs
from gradproof.patience import TooLong, allowance, patience
from gradproof.rule import Bulk, BulkRule, Rule
from gradproof.space import Space


def agrees(
    rule: Rule, arrays: BulkRule, outs: Sequence[Any], ybar: Sequence[Any], name: str
) -> bool:
    """Whether x̄ in dtype ``name`` is that of float64 at the same numbers.

    To within ``GROSS`` of the largest entry of its leaf, whatever its rounding is. False
    too where it cannot be asked so: that is for ``settings.other_dtype`` to tell.
    """
    narrow = rule.in_precision(name)
    small = None if narrow is None else narrow.bulk()
    if narrow is None or small is None or not (rule.custom or narrow.custom):
        return False
    truth: list[Any] = []

    def exact() -> None:
        xs = [_own(arrays, x) for x in small.point]
        truth.extend(arrays.vjp(xs, [1 * y for y in ybar]) or ())

    try:
        with patience(allowance(exact)):
            value = small.value([1 * x for x in small.point])
            ys = [small.cast(y, name) for y in ybar]
            got = small.vjp([1 * x for x in small.point], ys)
    except TooLong:
        return False
    if value is None or got is None or not truth:
        return False
    alike = _near(arrays, rule.primal.codomain, value, outs, ALIKE)
    return alike and _near(arrays, rule.primal.domain, got, truth, GROSS[name])


def _own(arrays: Bulk, x: Any) -> Any:
    """``x`` in float64, in memory of its own."""
    return 1.0 * arrays.cast(x, "float64")


def _near(
    arrays: Bulk, space: Space, got: Sequence[Any], want: Sequence[Any], share: float
) -> bool:
    for leaf, a, b in zip(space, got, want, strict=True):
        room = share * float(abs(b).max()) if leaf.size else 0.0
        if not isfinite(room):
            return False
        for at in slabs(leaf.view_shape, 1 << 18):
            gap = abs(arrays.cast(a[at], "float64") - b[at])
            if leaf.size and not float(gap.max()) <= room:
                return False
    return True
