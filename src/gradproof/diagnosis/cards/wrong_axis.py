"""Reduced, accumulated or normalised along another axis."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.structure import got_support, relations, want_support
from gradproof.space import Leaf
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    facts = []
    for into, out, p in look.pairs():
        if not p.bad.any():
            continue
        due = relations(p, want_support(p), into, out)
        done = relations(p, got_support(p), into, out)
        lost, gained = due - done, done - due
        if lost and not gained and _same_shape(into, out) and _mixes(p):
            facts.append(
                f"d{out.path}/d{into.path} does not mix along axis {sorted(lost)[0][1]}; the "
                "backward does"
            )
            continue
        if not (lost and gained):
            return None
        facts.append(_along(into, out, sorted(lost)[0][1], sorted(gained)[0][1]))
    if not facts:
        return None
    return Match(
        f"{look.name} works along another axis than the forward",
        tuple(facts),
        note="a test with one row, or with a symmetric input, hides this",
        help="use the forward's axis in every sum, mean, flip and cumulative sum",
    )


def _along(into: Leaf, out: Leaf, due: int, done: int) -> str:
    """What the forward keeps apart, and what the backward does: axes of the output."""
    if _same_shape(into, out) and len(into.shape) == 2:
        return (
            f"the forward works along axis {1 - due} of {into.path}, the backward along "
            f"axis {1 - done}"
        )
    return (
        f"d{out.path}/d{into.path} does not mix along axis {due} of {out.path}; the "
        f"backward does, and not along axis {done}"
    )


def _same_shape(into: Leaf, out: Leaf) -> bool:
    return into.shape == out.shape and len(into.shape) > 1


def _mixes(p: Panel) -> bool:
    """Whether the rule reduces over too much.

    It then couples most of what the function keeps apart, beside all that the function
    couples, and is wrong there as well: neither a leak nor a shift.
    """
    apart = ~want_support(p) & p.ok
    more = got_support(p) & apart
    kept = got_support(p) & want_support(p)
    return bool(
        more.sum() > 0.3 * apart.sum()
        and kept.sum() > 0.8 * want_support(p).sum()
        and np.any(p.bad & ~apart)
    )


CARD = Card("wrong-axis", Severity.ERROR, 77, _match)
