"""Gradient where none is due: of which inputs, and under which condition."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import rank, zero_got, zero_want
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.parts import name_part, wrong_columns
from gradproof.diagnosis.predicates import predicate
from gradproof.diagnosis.slices import call
from gradproof.diagnosis.structure import want_support
from gradproof.diagnosis.values import told_by_entry
from gradproof.space import Leaf


def idle(look: Look) -> list[Leaf]:
    """Wrong inputs on which nothing depends, where all else that is wrong is one term."""
    wrong = look.wrong_leaves
    found = [a for a in wrong if all(zero_want(p.within(a)).all() for p in look.panels)]
    if not found or len(look.evidence.domain) <= len(found) or look.block is None:
        return []
    rest = [look.block.within(a) for a in wrong if a not in found]
    slight = all(rank(p.got - p.want, p.slack) <= 1 for p in rest if p.ok.all())
    return found if slight else []


def unmixed(look: Look) -> tuple[Panel, ...]:
    """Where zeros show: not in what a random cotangent mixes, if the block is whole."""
    return (look.block,) if look.whole and look.block is not None else look.panels


def only_leaks(look: Look) -> bool:
    """Whether nothing is due wherever what was given is wrong."""
    return all(zero_want(p)[p.bad].all() for p in unmixed(look))


def dead(look: Look) -> bool:
    """Whether wrong elements have no derivative at all, rather than single entries."""
    columns = wrong_columns(look)
    return all(zero_want(p)[:, columns[p.cols]].all() for p in look.panels)


def few_entries(look: Look) -> bool:
    """An output and an input that have nothing to do with one another.

    Few such entries are a leak; most of a block is another mistake, unless a condition
    tells them from those that are due.
    """
    share = [
        p.bad.sum() / max(1, zero_want(p).sum())
        for p in look.panels
        if p.rows is not None
    ]
    return bool(share) and (max(share) <= 0.9 or bool(condition(look)))


def condition(look: Look) -> str:
    """What tells leaking entries from those that are due."""
    p = look.block
    return told_by_entry(look, p.bad, want_support(p) & ~p.bad) if p is not None else ""


def place(look: Look) -> str:
    """Where the wrong elements or entries are, by value or by index."""
    columns = wrong_columns(look)
    when = predicate(look, columns) or ("" if dead(look) else condition(look))
    if when:
        return f"where {when}"
    leaf = look.wrong_leaves[0]
    named = name_part(leaf, columns) if len(look.wrong_leaves) == 1 else None
    if named is not None and named.kind != "all":
        return f"in {call(leaf.path, named)}"
    return "where it is masked or inactive"


def inverted(look: Look) -> tuple[str, int, int] | None:
    """Gradient just where none is due and none where it is: (condition, leaks, lacks)."""
    p = look.block
    if p is None:
        return None
    leaked, lost = p.bad & zero_want(p), p.bad & zero_got(p)
    if not leaked.any() or not lost.any() or np.any(p.bad & ~leaked & ~lost):
        return None
    when = told_by_entry(look, leaked, lost)
    return (when, int(leaked.sum()), int(lost.sum())) if when else None
