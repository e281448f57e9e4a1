"""Is a set of wrong elements told by their values, or by their places?"""

from __future__ import annotations

from math import comb

import numpy as np

from gradproof.diagnosis.algebra import signal
from gradproof.diagnosis.card import Bools
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import wrong_columns
from gradproof.diagnosis.predicates import predicate, separates
from gradproof.diagnosis.seen import variables
from gradproof.space import Mask


def told_by_value(look: Look) -> str:
    """The condition on values that the wrong elements share, if it is no accident."""
    if len(look.wrong_leaves) != 1:
        return ""
    leaf = look.wrong_leaves[0]
    wrong = wrong_columns(look)
    bad = int(wrong.sum())
    good = int((_telling(look) & ~wrong)[leaf.slice].sum())
    when = predicate(look, wrong)
    special = when.endswith(("= 0", "tied with another", "not finite"))
    if special:
        return when
    if bad < 2 or good < 2:
        return ""
    # By chance, one of some ways to split so many elements would have a condition.
    chances = 10 if when.endswith(("< 0", "> 0")) else 60
    return when if comb(bad + good, bad) >= chances else ""


def _telling(look: Look) -> Mask:
    """Elements of which something would have shown: their derivative is not 0."""
    out = np.zeros(look.evidence.domain.size, bool)
    for p in look.panels:
        out[p.cols[signal(p).any(axis=0)]] = True
    return out


def told_by_entry(look: Look, bad: Bools, good: Bools) -> str:
    """A condition on what stands at an entry, on all of ``bad`` and on none of ``good``.

    Entries of the only wrong block, as of a weight that all rows share: then values of
    the weight tell nothing, and those of what it meets do.
    """
    pairs = [(a, b, p) for a, b, p in look.pairs() if p.bad.any()]
    if len(pairs) != 1 or bad.shape != pairs[0][2].got.shape:
        return ""
    into, out, p = pairs[0]
    i, j = np.nonzero(bad | good)
    wrong = bad[i, j]
    if comb(len(wrong), int(wrong.sum())) < 200:
        return ""
    for leaf in look.evidence.domain:
        v = variables(look, p, into, out, i, j).get(leaf.path)
        when = separates(v, wrong, ~wrong, leaf) if v is not None else ""
        if when:
            return when
    return ""
