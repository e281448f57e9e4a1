"""Two mistakes in one gradient: a factor over most of it, and another one beneath."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.diagnosis.algebra import SIGNAL, Ratio
from gradproof.diagnosis.card import Match
from gradproof.diagnosis.constants import is_factor, named
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import gradient_of, number
from gradproof.space import Leaf, Vector
from gradproof.verdict import Evidence

ENOUGH = 6  # entries that must share the factor


def majority(look: Look) -> Ratio | None:
    """The one constant that explains at least half of the entries, but not all.

    From |got − c·want| ≤ own + |c|·bound each entry with a signal gives an interval for
    c; the point that lies in the most of them is taken.
    """
    low, high = [np.zeros(0)], [np.zeros(0)]
    for p in look.panels:
        clear = p.ok & (np.abs(p.want) > SIGNAL * p.slack) & np.isfinite(p.got)
        g, w, e = p.got[clear], p.want[clear], 2 * p.slack[clear]
        c = g / w
        half = e * (1 + np.abs(c)) / np.abs(w)
        low.append(c - half)
        high.append(c + half)
    a, b = np.concatenate(low), np.concatenate(high)
    if len(a) < ENOUGH:
        return None
    starts, ends = np.sort(a), np.sort(b)
    depth = np.arange(1, len(a) + 1) - np.searchsorted(ends, starts, "left")
    at = float(starts[int(np.argmax(depth))])
    mine = (a <= at) & (at <= b)
    found = Ratio(float(a[mine].max()), float(b[mine].min()), int(mine.sum()))
    if found.low <= 0.0 <= found.high or found.holds(1.0) or not is_factor(found):
        return None
    return found if max(ENOUGH, len(a) // 2) <= found.count < len(a) else None


def beneath(look: Look, leaf: Leaf, found: Ratio) -> Look | None:
    """The evidence once that factor is divided out of one input's gradient.

    None where that leaves hardly less wrong than there was, or nothing.
    """
    scale = np.ones(look.evidence.domain.size)
    scale[leaf.slice] = 1.0 / found.mid
    after = Look.at(_divided(look.evidence, scale)).on((leaf,))
    wrong, before = after.counts[0], look.counts[0]
    return after if wrong > 0 and 2 * wrong <= before else None


def _divided(e: Evidence, scale: Vector) -> Evidence:
    block = e.block
    if block is not None:
        by = scale[block.cols][None, :]
        block = replace(block, implied=block.implied * by, own=block.own * np.abs(by))
    probes = tuple(
        replace(p, got=p.got * scale, own=p.own * np.abs(scale)) for p in e.probes
    )
    return replace(e, block=block, probes=probes, answers=())


def factor(look: Look, found: Ratio) -> Match:
    """What is said of the factor."""
    paths = [a.path for a in look.wrong_leaves]
    text, _ = named(found, look)
    return Match(
        f"{look.name} returns {text} times {gradient_of(paths)}, and errs in another way "
        "too",
        (f"got / expected = {number(found.mid)} in {found.count} entries, not in all",),
        note="two mistakes are at work: mend this one, and the other shows alone",
        help=f"divide by {text}, then mend the other mistake",
    )
