"""An elementwise rule of very many entries that errs: which entries, by two directions.

What the pass path found odd is measured again, along a fresh direction with other steps;
an entry is wrong where both say so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradproof.checks.bulk import Question
from gradproof.checks.halves import lanes
from gradproof.checks.slabs import slabs
from gradproof.checks.summing import Along, Odd, Probes
from gradproof.numdiff.pooled import Step
from gradproof.space import Vector
from gradproof.verdict import Code, Estimate, Probe

NAMES = ("value", "bound", "own", "got", "sharp")
Table = dict[str, Vector]


def accused(q: Question, point: Vector) -> Probe | None:
    """Every entry of x̄ against its measured value; None where that cannot be had.

    ``q`` is a question that was found odd; ``point`` the inputs as a vector. None unless
    every leaf is elementwise and some entry is wrong along both directions.
    """
    p = q.probes
    if p is None or p.rule is not q.rule or not _stands(q, p):
        return None
    try:
        first, second = (
            _measured(q, p, replace(q.step, near=False, times=t)) for t in (1.0, 0.5)
        )
    except Odd:
        return None
    wrong = _wrong(first) & _wrong(second)
    if not wrong.any():
        return None
    # Where the directions contradict each other nothing is accused.
    doubt = (_wrong(first) ^ wrong) | (first["sharp"] == 0)
    n = len(point)
    expected = Estimate(
        value=first["value"],
        bar=first["bound"] / 4,
        bound=first["bound"],
        noise=np.zeros(n),
        code=np.where(doubt, Code.KINK, Code.OK).astype(np.int8),
        left=np.full(n, np.nan),
        right=np.full(n, np.nan),
        method=q.method,
    )
    return Probe(point, q.rule.vector(p.ybars[0]), first["got"], expected, first["own"])


def _stands(q: Question, p: Probes) -> bool:
    """Whether a fresh graph gives the same answer: it may be a buffer in use again."""
    again = q.rule.vjp([x + 0.0 for x in q.rule.point], p.ybars[0])
    return again is not None and all(
        bool((a == b).all()) for a, b in zip(again, p.xbars[0], strict=True)
    )


def _wrong(table: Table) -> Any:
    with np.errstate(invalid="ignore"):
        over = ~(np.abs(table["got"] - table["value"]) <= table["bound"] + table["own"])
    return over & (table["sharp"] > 0)


def _measured(q: Question, p: Probes, step: Step) -> Table:
    """By entry of the inputs: x̄ as measured and as given. ``Odd`` where that cannot be."""
    out = {name: np.empty(q.domain.size) for name in NAMES}
    for k, leaf in enumerate(q.domain):
        u = q.tangent(k)
        room = q.room("in", k, leaf, leaf.precision)
        lane = lanes(q.rule, k, u, q.start, room, q.rng)
        if lane.width != 1 or any(a.shape != leaf.shape for a in q.codomain):
            raise Odd
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
