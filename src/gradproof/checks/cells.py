"""Cell by cell: what one direction says of every row of a row-wise operation at once."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from gradproof.checks.lanes import Lanes
from gradproof.checks.probing import Slope, slope, weighted
from gradproof.oracles import Differences
from gradproof.rule import Rule
from gradproof.space import Mask, Vector
from gradproof.verdict import Code, Estimate, Limit, Probe

COLUMNS = 64  # a cell of more coordinates is not measured one by one
VISIBLE = 1e-3  # smaller entries have no relative limit of their own
WORST = 4  # cells that are asked about by a direction of their own, at most


@dataclass(frozen=True, eq=False)
class Cells:
    """<x̄, u> against <ȳ, J u> in every cell; arrays of shape (count,)."""

    got: Vector
    expected: Vector
    bound: Vector
    moved: np.ndarray  # |x̄_j u_j|, shape (count, width)

    @property
    def off(self) -> Mask:
        """Cells that disagree beyond their bound."""
        with np.errstate(invalid="ignore"):
            out: Mask = ~(np.abs(self.got - self.expected) <= self.bound)
        return out

    @property
    def apart(self) -> Vector:
        """Everything that the comparison left room for."""
        with np.errstate(invalid="ignore"):
            room: Vector = self.bound + np.abs(self.got - self.expected)
        return room


def cells(rule: Rule, lanes: Lanes, along: Slope, probe: Probe) -> Cells:
    """One direction by cells; its tangent is 0 outside the leaf."""
    e, part = along.estimate, lanes.leaf.slice
    weight, got = weighted(rule, along, probe)
    value, bound = e.value, e.bound
    if not along.whole:
        value = np.where(along.known, value, 0.0)
        bound = np.where(along.known, bound, 0.0)
    u = along.tangent[part]
    own = lanes.rows(probe.own[part] * np.abs(u))
    rounding = np.minimum(own.sum(axis=1), 4.0 * np.sqrt((own**2).sum(axis=1)))
    moved = lanes.rows(np.where(u != 0, got[part], 0.0) * u)
    return Cells(
        got=moved.sum(axis=1),
        expected=lanes.totals(weight * value),
        bound=lanes.totals(np.abs(weight) * bound) + rounding,
        moved=np.abs(moved),
    )


def accused(
    rule: Rule, oracle: Differences, lanes: Lanes, along: Slope, probe: Probe
) -> list[Slope]:
    """Directions within the worst cells alone, where some cell disagrees."""
    found = cells(rule, lanes, along, probe)
    off = np.flatnonzero(found.off)
    if not len(off):
        return []
    gap = np.nan_to_num(np.abs(found.got - found.expected), nan=np.inf)[off]
    ratio = gap / np.maximum(found.bound[off], 1e-300)
    out = []
    for cell in off[np.argsort(-ratio, kind="stable")[:WORST]]:
        only = np.zeros((lanes.count, lanes.width), bool)
        only[cell] = True
        u = np.zeros_like(along.tangent)
        u[lanes.leaf.slice] = np.where(
            lanes.flat(only), along.tangent[lanes.leaf.slice], 0.0
        )
        out.append(slope(oracle, u))
    return out


def limits(found: list[Cells]) -> tuple[Limit, ...]:
    """The relative error of one cell, and of one entry, that would have been seen.

    ``found`` are comparisons of the same cells by several directions and cotangents: an
    error is seen as soon as one of them shows it.
    """
    if not found or found[0].moved.size == 0:
        return ()
    size = found[0].moved
    seen = size >= VISIBLE * size.max(initial=0.0)
    row, entry = np.full(len(size), np.inf), np.full(size.shape, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for one in found:
            row = np.fmin(row, one.apart / np.abs(one.expected))
            entry = np.fmin(entry, one.apart[:, None] / one.moved)
    live = seen.any(axis=1)
    if not live.any():
        return ()
    return (
        Limit("one row", float(row[live].max())),
        Limit("one entry", float(entry[seen].max())),
    )


def blank(n: int, method: str) -> Estimate:
    """Nothing is measured yet."""
    return Estimate(
        value=np.full(n, np.nan),
        bar=np.zeros(n),
        bound=np.zeros(n),
        noise=np.zeros(n),
        code=np.full(n, Code.UNMEASURED, dtype=np.int8),
        left=np.full(n, np.nan),
        right=np.full(n, np.nan),
        method=method,
    )


def column_by_column(
    oracle: Differences,
    lanes: Lanes,
    probes: list[Probe],
    end: float,
    first: Slope | None = None,
) -> list[Probe] | None:
    """``probes`` with every entry of the leaf measured: one direction for each column.

    None where that would last until after ``end`` (on the clock). ``first`` is a
    direction that serves for a cell of one coordinate.
    """
    tables = [
        {k: getattr(p.expected, k).copy() for k in ("value", "bar", "bound", "code")}
        for p in probes
    ]
    part, size = lanes.leaf.slice, oracle.scales()
    # Views of the tables where the leaf lies by cells as it is, copies elsewhere.
    rows = {id(t): {k: lanes.rows(v[part]) for k, v in t.items()} for t in tables}
    started = time.perf_counter()
    for k in range(lanes.width):
        along = first if first is not None else _column(oracle, lanes, size, k)
        step = lanes.rows(along.tangent[part])[:, k]
        for p, table in zip(probes, tables, strict=True):
            _put(rows[id(table)], k, lanes, along.estimate, p.cotangent, step)
        if k == 0 and lanes.width > 1:
            each = time.perf_counter() - started
            if time.perf_counter() + each * (lanes.width - 1) > end:
                return None
    for table in tables:
        for name, v in table.items():
            v[part] = lanes.flat(rows[id(table)][name])
    return [
        replace(p, expected=replace(p.expected, **table))
        for p, table in zip(probes, tables, strict=True)
    ]


def _column(oracle: Differences, lanes: Lanes, size: Vector, k: int) -> Slope:
    only = np.zeros((lanes.count, lanes.width), bool)
    only[:, k] = True
    u = np.zeros_like(size)
    part = lanes.leaf.slice
    u[part] = np.where(lanes.flat(only), size[part], 0.0)
    return slope(oracle, u, closer=True)


def _put(
    rows: dict[str, np.ndarray],
    k: int,
    lanes: Lanes,
    e: Estimate,
    ybar: Vector,
    step: Vector,
) -> None:
    """Column ``k`` of every cell: x̄ as one direction through all of them predicts it."""
    weight = np.abs(ybar)
    finite = np.isfinite(e.value)
    value = e.value if finite.all() else np.where(finite, e.value, 0.0)
    rows["value"][:, k] = lanes.totals(ybar * value) / step
    rows["bar"][:, k] = np.sqrt(lanes.totals((weight * e.bar) ** 2)) / np.abs(step)
    rows["bound"][:, k] = lanes.totals(weight * e.bound) / np.abs(step)
    rows["code"][:, k] = lanes.largest(e.code)
