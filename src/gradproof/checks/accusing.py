"""A rule of very many entries that errs: which inputs, which places, which entries.

What the pass path found odd is measured again, along fresh directions with other steps.
An elementwise rule shows all its entries along one; of any other, masked directions find
the place, and single entries of it are measured alone. Nothing is accused on the strength
of a guess at structure: an entry of each wrong input is moved by itself, and held against
all outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradproof.checks.bulk import Question
from gradproof.checks.halves import lanes
from gradproof.checks.lanes import Lanes
from gradproof.checks.locating import locate, one_each
from gradproof.checks.masking import Masked
from gradproof.checks.slabs import slabs
from gradproof.checks.summing import Along, Odd, Probes
from gradproof.numdiff.pooled import Step
from gradproof.space import Mask, Vector
from gradproof.verdict import Code, Estimate, Located, Probe

NAMES = ("value", "bound", "own", "got", "sharp")
LEAVES = 16  # more inputs are searched the long way
SINGLES = 8  # entries of a place that are measured alone, at least
AROUND = 4  # entries beside it, at least
OFTEN = 2  # directions of single entries, one in each cell, at least
TRIED = 3  # single entries of which one must stand by itself
FINER = 2.0**-6  # times a step, with which the slope must be the same to be one
STEEPER = 8.0  # times the slope, from which on finer steps show another one

Table = dict[str, Vector]


@dataclass(frozen=True, eq=False)
class Accused:
    """Entries that are wrong, and where masked directions found them.

    ``pairs`` is how many directions were compared, times cotangents.
    """

    probe: Probe
    pairs: int
    located: tuple[Located, ...] = ()


def accused(q: Question, point: Vector) -> Accused | None:
    """What is wrong of a rule that was found odd; None where that cannot be told.

    Args:
        q: the question that was found odd.
        point: the inputs as a vector.
    """
    p = q.probes
    if p is None or p.rule is not q.rule or len(q.domain) > LEAVES or not _stands(q, p):
        return None
    located: tuple[Located, ...] = ()
    try:
        every = [_lanes(q, k) for k in range(len(q.domain))]
        if all(_elementwise(q, lane) for lane in every):
            table, doubt = _whole(q, p)
            pairs = 2 * len(every)
        else:
            before = q.evaluations
            table, doubt, located = _searched(q, p, every)
            pairs = len(p.ybars) * (q.evaluations - before) // len(q.step.steps)
    except Odd:
        return None
    if not (_wrong(table) & ~doubt).any() or not _still(q):
        return None
    n = len(point)
    code = np.where(doubt, Code.KINK, Code.OK)
    code[np.isnan(table["value"])] = Code.UNMEASURED
    expected = Estimate(
        value=table["value"],
        bar=table["bound"] / 4,
        bound=table["bound"],
        noise=np.zeros(n),
        code=code.astype(np.int8),
        left=np.full(n, np.nan),
        right=np.full(n, np.nan),
        method=q.method,
    )
    ybar = q.rule.vector(p.ybars[0])
    probe = Probe(point, ybar, table["got"], expected, table["own"])
    return Accused(probe, pairs, located)


def _stands(q: Question, p: Probes) -> bool:
    """Whether a fresh graph gives the same answer: it may be a buffer in use again."""
    again = q.rule.vjp([x + 0.0 for x in q.rule.point], p.ybars[0])
    return again is not None and _same(again, p.xbars[0])


def _still(q: Question) -> bool:
    """Whether the function gives at the point what it gave at first."""
    return _same(q.moved({}, 0.0), q.base)


def _same(some: list[Any], others: list[Any]) -> bool:
    return all(bool((a == b).all()) for a, b in zip(some, others, strict=True))


def _lanes(q: Question, k: int) -> Lanes:
    q.evaluations += 1
    leaf = q.domain.leaves[k]
    room = q.room("in", k, leaf, leaf.precision)
    return lanes(q.rule, k, q.tangent(k), q.start, room, q.rng)


def _elementwise(q: Question, lane: Lanes) -> bool:
    return lane.width == 1 and all(a.shape == lane.leaf.shape for a in q.codomain)


def _wrong(table: Table) -> Any:
    with np.errstate(invalid="ignore"):
        over = ~(np.abs(table["got"] - table["value"]) <= table["bound"] + table["own"])
    return over & (table["sharp"] > 0)


# Elementwise: every entry.


def _whole(q: Question, p: Probes) -> tuple[Table, Mask]:
    """Every entry by two directions, and those of which nothing is said."""
    first, second, finer = (
        _measured(q, p, replace(q.step, near=False, times=t)) for t in (1.0, 0.5, FINER)
    )
    # Where the directions contradict each other, or the slope is another one for finer
    # steps, nothing is accused.
    wrong = _wrong(first)
    with np.errstate(invalid="ignore"):
        apart = np.abs(first["value"] - finer["value"])
        same = apart <= first["bound"] + finer["bound"]
        same &= np.abs(finer["value"]) <= STEEPER * np.abs(first["value"])
    return first, (wrong & ~(_wrong(second) & same)) | (first["sharp"] == 0)


def _measured(q: Question, p: Probes, step: Step) -> Table:
    """By entry of the inputs: x̄ as measured and as given."""
    out = {name: np.empty(q.domain.size) for name in NAMES}
    for k, leaf in enumerate(q.domain):
        u = q.tangent(k)
        moved = [q.moved({k: u}, t) for t in step.steps]
        noisy, usual = q.typical(step, moved)
        a = Along(q.source, step, q.base, moved, {k: u}, q.sizes, noisy, q.loose)
        views = {
            name: v[leaf.slice].reshape(leaf.view_shape) for name, v in out.items()
        }
        for at in slabs(leaf.view_shape):
            for name, part in _piece(p, a, k, at, usual).items():
                views[name][at] = q.rule.host(part)
    return out


def _piece(p: Probes, a: Along, k: int, at: Any, usual: float) -> dict[str, Any]:
    cast = p.rule.cast
    got, u = (cast(t[k][at], p.work) for t in (p.xbars[0], a.us))
    value, bound, sharp = 0.0, 0.0, abs(u) > 0
    for j in range(len(a.base)):
        slope, room = a.step.slope(*a.values(j, at, p.work))
        w = cast(p.ybars[0][j][at], p.work)
        sharp = sharp & (room <= a.loose * abs(slope).clip(min=usual))
        value, bound = value + w * slope / u, bound + abs(w) * room / abs(u)
    # With room for what cancels: a small entry may be a difference of large terms.
    own = p.own(k, at, abs(got), alone=False)
    return {"value": value, "bound": bound, "own": own, "got": got, "sharp": sharp}


# Anything else: the place, and single entries of it.


def _searched(
    q: Question, p: Probes, every: list[Lanes]
) -> tuple[Table, Mask, tuple[Located, ...]]:
    """Some entries, those of which nothing is said, and the places that are wrong."""
    n = q.domain.size
    table = {name: np.zeros(n) for name in NAMES}
    table["value"][:] = np.nan
    table["got"] = q.rule.vector(p.xbars[0])
    located = []
    for k, lane in enumerate(every):
        place = _place(q, p, k, lane, table)
        if place is not None:
            located.append(place)
    return table, np.zeros(n, bool), tuple(located)


def _place(q: Question, p: Probes, k: int, lane: Lanes, table: Table) -> Located | None:
    """Where leaf ``k`` is wrong, with single entries of it put into ``table``."""
    masked = Masked(q, p, k, lane)
    bad = masked.everything()
    if not bad.any():
        return None
    masked.fresh(0.5)
    bad &= masked.everything()
    if not bad.any():
        return None
    masked.quicker(bad)
    found = locate(lane, masked.off, q.rng, bad)
    masked.fresh(1.0)
    if found is None:
        return None
    mask, solid = found
    inside: np.ndarray = lane.rows(mask).astype(bool)
    live = np.asarray(inside.any(axis=1))
    around: np.ndarray = ~inside & live[:, None]
    if not around.any():
        around = ~inside
    _alone(masked, inside, SINGLES, table)
    _alone(masked, around, AROUND, table)
    if not _confirmed(masked, table):
        raise Odd
    return Located(lane.leaf.path, mask, solid)


def _alone(masked: Masked, mask: np.ndarray, least: int, table: Table) -> None:
    """Entries in ``mask``, one at a time in every cell, measured."""
    lane, left = masked.lanes, mask.copy()
    live = int(mask.any(axis=1).sum())
    for _ in range(max(OFTEN, -(-least // max(1, live)))):
        if not left.any():
            return
        one = one_each(left, masked.q.rng)
        left &= ~one
        _put(masked, lane, one, masked.slopes(one), table)


def _put(
    masked: Masked,
    lane: Lanes,
    one: np.ndarray,
    numbers: tuple[Vector, Vector, Vector],
    table: Table,
) -> None:
    """Into the table what was measured of the entries in ``one``, one of each cell."""
    live = one.any(axis=1)
    leaf, at = lane.leaf, np.arange(lane.leaf.size)
    where = leaf.start + lane.rows(at)[one]
    u = lane.rows(masked.q.rule.vector([masked.tangent]))[one]
    value, room = (a[live] for a in numbers[1:])
    fine = np.isfinite(value) & (u != 0)
    where, u, value, room = where[fine], u[fine], value[fine], room[fine]
    table["value"][where] = value / u
    table["bound"][where] = room / np.abs(u)
    table["sharp"][where] = 1.0


def _confirmed(masked: Masked, table: Table) -> bool:
    """Whether an entry that is wrong is so moved by itself, whatever else depends on it."""
    leaf = masked.leaf
    part = {name: v[leaf.slice] for name, v in table.items()}
    wrong = np.flatnonzero(_wrong(part))
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.abs(part["got"] - part["value"])[wrong] / part["bound"][wrong]
    alone = Masked(masked.q, masked.p, masked.which, Lanes(leaf, masked.q.codomain))
    for i in wrong[np.argsort(-excess, kind="stable")[:TRIED]]:
        one = np.zeros((1, leaf.size), bool)
        one[0, i] = True
        alone.fresh(0.5)
        if alone.off(one).all() and _resolved(alone, one):
            return True
    return False


def _resolved(masked: Masked, one: np.ndarray) -> bool:
    """Whether finer steps show the same slope: x / max(|x|, ε) at 0 jumps to coarse ones."""
    (_, slope, room), before = masked.slopes(one), masked.step
    masked.step = replace(before, times=before.times * FINER)
    _, finer, more = masked.slopes(one)
    masked.step = before
    same = np.abs(slope - finer) <= room + more
    return bool((same & (np.abs(finer) <= STEEPER * np.abs(slope))).all())
