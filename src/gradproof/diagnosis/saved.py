"""Other values at which a backward may have been evaluated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.card import Match
from gradproof.diagnosis.factors import computed
from gradproof.diagnosis.identify import fit
from gradproof.diagnosis.look import Coordinates, Look
from gradproof.diagnosis.structure import got_support, want_support
from gradproof.diagnosis.words import joined
from gradproof.space import Leaf, Vector
from gradproof.verdict import Block, Code


def candidates(look: Look) -> Iterator[tuple[str, str, Vector]]:
    """(key, in words, point) of the places where the backward may have been evaluated."""
    e = look.evidence
    for leaf in (a for a in e.domain if not a.is_complex):
        others: list[tuple[str, Vector]] = [
            (f"the output {out.path}", look.output_of(out))
            for out in e.codomain
            if out.size == leaf.size and not out.is_complex
        ]
        others += [
            (b.path, look.value_of(b))
            for b in e.domain
            if b.path != leaf.path and b.shape == leaf.shape and not b.is_complex
        ]
        others += _rows(look, leaf)
        for k, (name, value) in enumerate(others):
            x = e.point.copy()
            x[leaf.slice] = value
            if np.isfinite(x).all() and not np.array_equal(x, e.point):
                yield f"saved:{leaf.path}:{k}", f"{name} in the place of {leaf.path}", x


def _rows(look: Look, leaf: Leaf) -> list[tuple[str, Vector]]:
    if len(leaf.shape) < 2 or leaf.shape[0] < 2:
        return []
    value = look.value_of(leaf).reshape(leaf.shape)
    return [
        (
            f"{leaf.path}[{k}] for every row",
            np.broadcast_to(value[k], leaf.shape).ravel(),
        )
        for k in (0, -1)
    ]


def mistaken(look: Look) -> tuple[str, str, str] | None:
    """(used, due, formula): the formula is right, and one variable in it is another."""
    known = computed(look)
    if known is None or known.due is None:
        return None
    given, due = known.given.text, known.due.text
    names = [leaf.path for leaf in (*look.evidence.domain, *look.evidence.codomain)]
    for used in names:
        for meant in names:
            if used != meant and used in given and given.replace(used, meant) == due:
                return used, meant, due
    return None


FEW_ROWS, FEW_COLUMNS = 8, 4


def few_entries(block: Block) -> tuple[Coordinates, Coordinates]:
    """Rows and columns of the entries that are furthest off."""
    with np.errstate(invalid="ignore"):
        gap = np.where(block.wrong, np.abs(block.implied - block.value), 0.0)
    gap = np.where(np.isfinite(gap), gap, np.inf)
    rows = np.argsort(-gap.max(axis=1, initial=0.0), kind="stable")[:FEW_ROWS]
    cols = np.argsort(-gap.max(axis=0, initial=0.0), kind="stable")[:FEW_COLUMNS]
    return block.rows[np.sort(rows)], block.cols[np.sort(cols)]


def same(look: Look, there: Block) -> bool:
    """Whether the rule's answer here is the truth there, in all wrong input leaves."""
    block = look.evidence.block
    assert block is not None
    mine = np.zeros(look.evidence.domain.size, bool)
    for leaf in look.leaves:
        mine[leaf.slice] = True
    rows, cols = np.isin(block.rows, there.rows), np.isin(block.cols, there.cols)
    if there.value.shape != (rows.sum(), cols.sum()):
        return False
    inside = mine[there.cols]
    if not inside.any():
        return False
    here = np.ix_(rows, cols)
    ok = (there.code == Code.OK)[:, inside]
    gap = np.abs(block.implied[here] - there.value)[:, inside]
    room = (there.bound + AMPLIFY * block.own[here])[:, inside]
    # Where the room is as wide as the mistake, agreement says nothing.
    off = np.abs(block.implied - block.value)[here][:, inside]
    bad = block.wrong[here][:, inside] & ok
    with np.errstate(invalid="ignore"):
        told = (room < 0.1 * off)[bad]
        fits = bool((gap <= room)[ok].all() and ok.mean() > 0.9)
    return fits and bool(told.any()) and told.mean() > 0.9


def another_stage(look: Look) -> Match | None:
    """Every entry given is the same simple function of the one due, or the reverse."""
    facts = []
    for _, _, p in look.pairs():
        if not p.bad.any():
            continue
        live = got_support(p) | want_support(p)
        if live.sum() < 6 or not p.ok.all() or not np.isfinite(p.got).all():
            return None
        g, w, e = p.got[live], p.want[live], (p.bound + AMPLIFY * p.own)[live]
        for name, target, value in (
            ("expected", w, {"got": g}),
            ("got", g, {"expected": w}),
        ):
            found = fit(target, e, value, pairs=False)
            if (
                found is not None
                and found.cost > 1
                and len(np.unique(np.round(g, 9))) >= 4
            ):
                facts.append(f"{name} = {found.text} in {len(g)} of {len(g)} entries")
                break
        else:
            return None
    if not facts:
        return None
    paths = joined(a.path for a in look.wrong_leaves)
    return Match(
        f"{look.name} uses another stage of the same value in the gradient of {paths}",
        tuple(dict.fromkeys(facts)),
        note="near 0, where the two stages are nearly equal, this passes",
        help="use the value that the forward multiplied with: after the activation, not "
        "before it (or the reverse)",
        facts=("save",),
    )
