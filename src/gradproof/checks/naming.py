"""What is wrong, by index: accused columns measured one by one, without any structure."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from gradproof.checks.cells import cells
from gradproof.checks.gradient import Compared, endless, off
from gradproof.checks.lanes import Lanes
from gradproof.checks.locating import locate
from gradproof.checks.probing import Rows, directions, pull, slope
from gradproof.checks.rounding import SAFETY, shake, typical
from gradproof.oracles import Differences
from gradproof.rule import Rule
from gradproof.space import Leaf, Mask, Matrix, Vector, unit
from gradproof.verdict import Block, Code, Estimate, Located, Probe

COLUMNS = (
    24  # measured one by one once something is wrong, of the accused and at random
)
ROWS = 40  # of which the block is made, at most
FEW = 1 << 14  # inputs and outputs above which fewer are measured
FEWER_COLUMNS, FEWER_ROWS = 4, 8
LOCATE_SECONDS = 40.0
THOROUGH_SECONDS = 3.0
THOROUGH_VALUES = 50  # that a thorough column takes


@dataclass(frozen=True, eq=False)
class _Most:
    """How many columns and rows are measured."""

    columns: int
    rows: int

    @classmethod
    def of(cls, oracle: Differences) -> _Most:
        n, m = oracle.primal.domain.size, oracle.primal.codomain.size
        if max(n, m) <= FEW:
            return cls(COLUMNS, ROWS)
        return cls(FEWER_COLUMNS, FEWER_ROWS)


def named(
    rule: Rule,
    oracle: Differences,
    found: Compared,
    every: list[Lanes],
    u: Vector,
    rng: np.random.Generator,
) -> Compared:
    """``found`` with suspicious and random columns measured, and the place of the rest.

    Args:
        rule: what is wrong.
        oracle: the differences of its primal.
        found: probes and directions, of which some disagree.
        every: how each leaf falls into cells.
        u: a dense tangent.
        rng: draws what is measured for comparison.
    """
    probe = found.probes[0]
    n = rule.primal.domain.size
    most = _Most.of(oracle)
    accused = np.flatnonzero(_wrong(found.probes))
    located: list[Located] = []
    if not len(accused) and any(off(d) for d in found.directions):
        located = _located(rule, oracle, found, every, u, rng)
        accused = _edges(located, rule, most.columns, rng)
        if not len(accused):
            accused = _halve(rule, oracle, found, most.columns)
    spread = rng.choice(n, size=min(n, most.columns), replace=False)
    keep = accused[_spaced(len(accused), 2 * most.columns)]
    cols = np.unique(np.concatenate([keep, spread]).astype(np.int64))
    probes, block = _measured(rule, oracle, list(found.probes), cols, most, rng)
    block = endless(block, probe)
    probes = cleared(probes, found, block, cols)
    return replace(
        found,
        block=block,
        probes=tuple(probes),
        located=tuple(a for a in located if _borne_out(a, rule, probes, cols)),
        evaluations=oracle.evaluations,
    )


def cleared(
    probes: list[Probe], found: Compared, block: Block, cols: np.ndarray
) -> list[Probe]:
    """``probes`` without what they accuse, where all that was measured alone is right.

    A witness, or a guess at structure, accuses nobody.
    """
    if any(off(d) for d in found.directions) or block.wrong.any():
        return probes
    n = len(probes[0].got)
    measured = np.isin(np.arange(n), cols)
    if not any(p.wrong[measured].any() for p in probes):
        return [_recoded(p, ~measured, Code.UNMEASURED) for p in probes]
    # What oscillates within a step misleads a quick measurement, and no thorough one.
    if all(_thoroughly_right(p, block) for p in probes):
        return [_recoded(p, p.wrong, Code.NOISE) for p in probes]
    return probes


def _thoroughly_right(probe: Probe, block: Block) -> bool:
    """Whether the block alone tells every accused entry of its columns to be right."""
    at, ybar = block.cols, probe.cotangent[block.rows]
    gap = np.abs(probe.got[at] - ybar @ block.value)
    room = np.abs(ybar) @ block.bound + probe.own[at]
    return bool((gap <= room)[probe.wrong[at]].all())


def _wrong(probes: tuple[Probe, ...]) -> Mask:
    out: Mask = np.any([p.wrong for p in probes], axis=0)
    return out


def _located(
    rule: Rule,
    oracle: Differences,
    found: Compared,
    every: list[Lanes],
    u: Vector,
    rng: np.random.Generator,
) -> list[Located]:
    """The place of what is wrong in each leaf, by masked directions."""
    bad = [d for d in found.directions if off(d)]
    worst = max(bad, key=lambda d: abs(d.got - d.expected) / (d.bound or 1.0))
    first = next(p for p in found.probes if p.cotangent is worst.cotangent)
    probes = [first, *(p for p in found.probes if p is not first)]
    end = time.perf_counter() + LOCATE_SECONDS
    out = []
    for lanes in every:
        masked = _Masked(rule, oracle, lanes, probes, u, end)
        try:
            place = locate(lanes, masked.off, rng, masked.everything())
        except _OutOfTime:
            continue
        if place is not None:
            out.append(Located(lanes.leaf.path, *place))
    return out


class _OutOfTime(Exception):
    """Finding the place takes longer than it may."""


@dataclass(eq=False)
class _Masked:
    """Directions of which only masked coordinates of one leaf are moved."""

    rule: Rule
    oracle: Differences
    lanes: Lanes
    probes: list[Probe]
    u: Vector
    end: float  # when to give up (on the clock)
    thorough: bool = False

    def everything(self) -> Mask:
        """The cells that disagree where the whole leaf is moved."""
        every = np.ones((self.lanes.count, self.lanes.width), bool)
        bad = self.off(every)
        if not bad.any() and self.lanes.count == 1:
            self.thorough = True
            bad = self.off(every)
        return bad

    def off(self, mask: np.ndarray) -> Mask:
        """Cells that disagree on the coordinates in ``mask``; shape (count,)."""
        if time.perf_counter() > self.end:
            raise _OutOfTime
        part = self.lanes.leaf.slice
        u = np.zeros_like(self.u)
        chosen = self.lanes.flat(mask.reshape(len(mask), -1))
        u[part] = np.where(chosen, self.u[part], 0.0)
        along = slope(self.oracle, u)
        if self.thorough:
            found = directions(self.rule, self.oracle, along, self.probes, "thorough")
            return np.array([any(off(d) for d in found)])
        # Errors of both signs may cancel for one cotangent.
        bad = [cells(self.rule, self.lanes, along, p).off for p in self.probes]
        return np.asarray(np.any(bad, axis=0))


def _edges(
    located: list[Located], rule: Rule, most: int, rng: np.random.Generator
) -> np.ndarray:
    """Coordinates that tell most of each place: its ends, some of it, and around it."""
    out: list[np.ndarray] = []
    leaves = {leaf.path: leaf for leaf in rule.primal.domain}
    share = max(4, most // max(1, len(located)))
    for place in located:
        leaf = leaves[place.path]
        inside = np.flatnonzero(place.mask)
        around = np.flatnonzero(_grown(place.mask, leaf) & ~place.mask)
        some = rng.choice(inside, size=min(len(inside), share), replace=False)
        beside = rng.choice(around, size=min(len(around), share // 2), replace=False)
        out += [leaf.start + a for a in (inside[[0, -1]], some, beside)]
    return np.concatenate(out) if out else np.zeros(0, np.int64)


def _grown(mask: Mask, leaf: Leaf) -> Mask:
    """The mask and its neighbours along every axis."""
    view = mask.reshape(leaf.view_shape)
    out = view.copy()
    for axis in range(view.ndim):
        for step in (1, -1):
            moved = np.roll(view, step, axis)
            edge = [slice(None)] * view.ndim
            edge[axis] = slice(0, 1) if step > 0 else slice(-1, None)
            moved[tuple(edge)] = False
            out |= moved
    return out.ravel()


def _borne_out(
    place: Located, rule: Rule, probes: list[Probe], cols: np.ndarray
) -> bool:
    """Whether the measured columns are wrong where the place says so, and only there."""
    leaf = next(a for a in rule.primal.domain if a.path == place.path)
    mine = cols[(cols >= leaf.start) & (cols < leaf.start + leaf.size)]
    inside = place.mask[mine - leaf.start]
    wrong = _wrong(tuple(probes))[mine]
    return bool(not wrong[~inside].any() and wrong[inside].any())


def _measured(
    rule: Rule,
    oracle: Differences,
    probes: list[Probe],
    cols: np.ndarray,
    most: _Most,
    rng: np.random.Generator,
) -> tuple[list[Probe], Block]:
    """Expectations of ``probes`` at ``cols``, and a block of what these columns move."""
    m = oracle.primal.codomain.size
    tables: list[list[np.ndarray]] = [
        [a.copy() for a in (e.value, e.bar, e.bound, e.code)]
        for e in (p.expected for p in probes)
    ]
    rows: set[int] = set(range(m)) if m <= most.rows else set()
    each = max(2, most.rows // len(cols))
    for j in cols:
        u = np.zeros(oracle.primal.domain.size)
        u[j] = 1.0
        e = oracle.direction(u, "quick")
        _predict(tables, probes, int(j), e)
        if m > most.rows:
            size = np.nan_to_num(np.abs(e.value))
            top = np.argpartition(-size, min(each, m - 1))[:each]
            rows.update(int(i) for i in top if size[i] != 0 or len(rows) < each)
    out = []
    for p, (values, bars, bounds, codes) in zip(probes, tables, strict=True):
        e = replace(p.expected, value=values, bar=bars, bound=bounds, code=codes)
        out.append(replace(p, expected=e))
    at = np.array(sorted(rows), dtype=np.int64)
    return out, _block(rule, oracle, probes[0].point, cols, at, rng)


def _predict(
    tables: list[list[np.ndarray]], probes: list[Probe], j: int, e: Estimate
) -> None:
    """x̄_j as the measured column ``j`` predicts it, for each probe."""
    known = (e.code == Code.OK) & np.isfinite(e.value)
    value, bar, bound = (np.where(known, a, 0.0) for a in (e.value, e.bar, e.bound))
    for (values, bars, bounds, codes), p in zip(tables, probes, strict=True):
        values[j] = p.cotangent @ value
        bars[j] = np.linalg.norm(p.cotangent * bar)
        bounds[j] = np.abs(p.cotangent) @ bound
        codes[j] = e.code.max()


def _block(
    rule: Rule,
    oracle: Differences,
    x: Vector,
    cols: np.ndarray,
    rows: np.ndarray,
    rng: np.random.Generator,
) -> Block:
    """Rows × columns of the Jacobian; thoroughly, where that does not take long."""
    started = time.perf_counter()
    oracle.ask(x)
    once = time.perf_counter() - started
    thorough = once * THOROUGH_VALUES * len(cols) <= THOROUGH_SECONDS
    implied, own = _implied(rule, x, rows, cols, rng)
    part = Differences(Rows(oracle.primal, rows), x)
    c = part.columns(cols, "thorough" if thorough else "quick")
    oracle.evaluations += part.evaluations
    return Block(
        rows=rows,
        cols=cols,
        implied=implied,
        value=c.value,
        bar=c.bar,
        bound=c.bound,
        code=c.code,
        own=own,
        left=c.left,
        right=c.right,
        method=oracle.method,
        evaluations=c.evaluations,
    )


def _implied(
    rule: Rule, x: Vector, rows: np.ndarray, cols: np.ndarray, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """The block that the rule implies, and its rounding; no row is kept whole."""
    domain, codomain = rule.primal.domain, rule.primal.codomain
    implied, own = np.empty((2, len(rows), len(cols)))
    shaken = [shake(domain, x, rng) for _ in range(2)]
    units = np.maximum(domain.units()[cols][None, :], codomain.units()[rows][:, None])
    for k, i in enumerate(rows):
        hot = np.zeros(codomain.size)
        hot[i] = 1.0
        row = pull(rule, x, hot)
        spread = np.zeros(domain.size)
        for at in shaken:
            with np.errstate(invalid="ignore"):
                gap = np.abs(pull(rule, at, hot) - row)
            spread = np.fmax(spread, np.where(np.isfinite(gap), gap, 0.0))
        for leaf in domain:
            part = spread[leaf.slice]
            usual = typical(part, row[leaf.slice], unit(leaf.precision))
            spread[leaf.slice] = SAFETY * np.maximum(part, usual)
        implied[k], own[k] = row[cols], spread[cols]
    size = np.where(np.isfinite(implied), np.abs(implied), 0.0)
    return implied, own + SAFETY * units * size


def _spaced(count: int, most: int) -> np.ndarray:
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).astype(np.int64))


def _recoded(probe: Probe, mask: Mask, code: Code) -> Probe:
    e = probe.expected
    codes = np.where(mask, code, e.code).astype(np.int8)
    return replace(probe, expected=replace(e, code=codes))


def _halve(rule: Rule, oracle: Differences, found: Compared, most: int) -> np.ndarray:
    """One coordinate that is wrong, by halving a direction that disagrees."""
    bad = max(
        (d for d in found.directions if off(d)),
        key=lambda d: abs(d.got - d.expected) / (d.bound or 1.0),
    )
    probe = next(p for p in found.probes if p.cotangent is bad.cotangent)

    def disagrees(part: np.ndarray) -> bool:
        u = np.zeros_like(bad.tangent)
        u[part] = bad.tangent[part]
        return off(directions(rule, oracle, slope(oracle, u), [probe])[0])

    live = np.flatnonzero(bad.tangent)
    while len(live) > 1:
        half, rest = np.array_split(live, 2)
        if disagrees(half):
            live = half
        elif disagrees(rest):
            live = rest
        else:
            break
    return live[:most]
