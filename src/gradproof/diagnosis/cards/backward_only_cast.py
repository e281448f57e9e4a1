"""The identity forward, a cotangent cast to a lower precision backward."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.card import COTANGENT, FIRST, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.purpose import declare, identity
from gradproof.space import unit
from gradproof.verdict import Severity

_NARROW = ("bfloat16", "float16", "float32")


def _match(look: Look) -> Match | None:
    lin = look.linearity
    if lin is None or not identity(look) or set(lin.broken()) - {"additive"}:
        return None
    answers = [v for v in (lin.once, lin.other, lin.both) if v is not None]
    coarse = max(unit(leaf.precision) for leaf in look.evidence.domain)
    for name in _NARROW:
        if unit(name) <= coarse:
            continue
        narrow = look.evidence.domain.with_precision(name)
        if all(np.array_equal(narrow.snap(v), v) for v in answers) and _off(look, name):
            return Match(
                f"{look.name} rounds the gradient to {name}, and the forward changes "
                "nothing",
                (f"every entry of the gradient is a number of {name}",),
                note="a cast in the backward alone is often meant; it is not the "
                "derivative",
                help=declare(
                    "backward-only-cast",
                    "leave the cast out, or cast in the forward too",
                ),
            )
    return None


def _off(look: Look, name: str) -> bool:
    """Whether x̄ is ȳ but for one rounding, and not to the bit."""
    lin = look.linearity
    assert lin is not None
    if len(lin.once) != len(lin.cotangent):
        return False
    pairs = [(lin.once, lin.cotangent), (lin.other, lin.other_cotangent)]
    gaps = [(np.abs(x - y), np.abs(y)) for x, y in pairs if x is not None]
    near = all(np.all(gap <= 2 * unit(name) * size) for gap, size in gaps)
    return near and any(np.any(gap > 0) for gap, _ in gaps)


CARD = Card("backward-only-cast", Severity.ERROR, 55, _match, layers=(COTANGENT, FIRST))
