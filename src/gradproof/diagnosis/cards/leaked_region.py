"""Gradient where the function does not depend on the input."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import rank, zero_want
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import name_part, wrong_columns
from gradproof.diagnosis.predicates import predicate
from gradproof.diagnosis.slices import call
from gradproof.diagnosis.words import joined
from gradproof.space import Leaf
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    wrong = look.wrong_leaves
    idle = [a for a in wrong if _idle(look, a)]
    if idle and len(look.evidence.domain) > len(idle) and _slight(look, wrong, idle):
        names = joined(a.path for a in idle)
        return Match(
            f"{look.name} gives a gradient to {names}, on which the output does not "
            "depend here",
            (f"moving {names} changes no output, yet x̄ there is not 0",),
            note="a test at values where that path is active is right",
            help="multiply the path by the condition that the forward takes",
        )
    leaks = wrong and all(zero_want(p)[p.bad].all() for p in look.panels)
    return _region(look) if leaks else None


def _idle(look: Look, leaf: Leaf) -> bool:
    return all(zero_want(p.within(leaf)).all() for p in look.panels)


def _slight(look: Look, wrong: tuple[Leaf, ...], idle: list[Leaf]) -> bool:
    """Whether all else that is wrong is one term, of the path that is not taken."""
    if look.block is None:
        return False
    rest = [look.block.within(a) for a in wrong if a not in idle]
    return all(rank(p.got - p.want, p.slack) <= 1 for p in rest if p.ok.all())


def _region(look: Look) -> Match | None:
    columns = wrong_columns(look)
    dead = all(zero_want(p)[:, columns[p.cols]].all() for p in look.panels)
    if not dead:
        # Entries, not elements: an output and an input that have nothing to do with
        # one another. Few of them are a leak; most of a block is another mistake.
        share = [
            p.bad.sum() / max(1, zero_want(p).sum())
            for p in look.panels
            if p.rows is not None
        ]
        if not share or max(share) > 0.9 or _moved(look):
            return None
    leaf = look.wrong_leaves[0]
    named = name_part(leaf, columns) if len(look.wrong_leaves) == 1 else None
    when = predicate(look, columns)
    where = f"where {when}" if when else "where it is masked or inactive"
    if not when and named is not None and named.kind != "all":
        where = f"in {call(leaf.path, named)}"
    paths = joined(a.path for a in look.wrong_leaves)
    return Match(
        f"{look.name} gives {paths} a gradient {where}, where the output does not "
        "depend on it",
        (f"{int(columns.sum())} elements have x̄ ≠ 0 and a derivative of exactly 0",),
        note="inputs that stay inside the range, or a mask of ones, hide this",
        help="multiply by the mask (or the condition) that the forward applied",
    )


def _moved(look: Look) -> bool:
    """Whether entries are missing too, so that gradient went astray."""
    return any(np.any(p.bad & ~zero_want(p)) for p in look.panels)


CARD = Card("leaked-region", Severity.ERROR, 66, _match)
