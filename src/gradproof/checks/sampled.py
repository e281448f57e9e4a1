"""The same comparison where the whole Jacobian is too large: directions and structure.

Structure only chooses probes: every leaf is also compared along dense random directions,
so that no entry is excused by a guess about which output depends on which input.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.checks.gradient import Compared, implied_rows, off
from gradproof.checks.rounding import own_rounding, same_answer_slack
from gradproof.oracles import Differences
from gradproof.rule import Rule
from gradproof.space import Leaf, Mask, Vector
from gradproof.verdict import Block, Code, Direction, Estimate, Probe

COTANGENTS = 2
DENSE_TANGENTS = 2
ALONE = 8  # leaves that get a direction of their own
NAMED_COLUMNS = 24  # columns measured one by one once something is wrong
NAMED_ROWS = 96


def sampled(
    rule: Rule,
    oracle: Differences,
    x: Vector,
    ybars: list[Vector],
    rng: np.random.Generator,
) -> Compared:
    """Directions of the Jacobian against vjps; entries where structure allows.

    A leaf whose entries each move only the output of the same index yields its whole
    diagonal from one direction. A witness (autodiff of the body, a reference) that
    agrees with every measured direction names the entries; what it accuses is measured
    column by column before anything is called wrong.
    """
    domain = rule.primal.domain
    gots = [_vjp(rule, x, ybar) for ybar in ybars]
    owns = [own_rounding(rule, x, y, g, rng) for y, g in zip(ybars, gots, strict=True)]
    singles = [leaf for leaf in domain if _elementwise(rule, oracle, x, leaf, rng)]
    tangents = _tangents(rule, oracle, rng)
    directions: list[Direction] = []
    for u in tangents:
        directions += along(oracle, u, ybars, gots, owns)
    if any(off(d) for d in directions):
        again = [_dense(rule, oracle, rng), *tangents[DENSE_TANGENTS:]]
        directions = [
            d for u in again for d in along(oracle, u, ybars, gots, owns, "thorough")
        ]
    probes = []
    for ybar, got, own in zip(ybars, gots, owns, strict=True):
        expected = _diagonal(rule, oracle, ybar, singles)
        probes.append(Probe(x, ybar, got, expected, own))
    probes = _witnessed(rule, x, probes, directions)
    out = Compared(
        point=x,
        probes=tuple(probes),
        directions=tuple(directions),
        elementwise=tuple(leaf.path for leaf in singles),
        vjps=len(ybars) * 6,
        evaluations=oracle.evaluations,
        method=oracle.method,
        whole=False,
    )
    if not out.wrong:
        return out
    return _named(rule, oracle, out, rng)


def _vjp(rule: Rule, x: Vector, ybar: Vector) -> Vector:
    value = rule.vjp(x, ybar).value
    return np.full(rule.primal.domain.size, np.nan) if value is None else value


def _dense(rule: Rule, oracle: Differences, rng: np.random.Generator) -> Vector:
    """Entries ±[0.5, 1.5] on a 2⁻⁶ grid, in units of each coordinate's scale."""
    n = rule.primal.domain.size
    size = rng.integers(32, 97, n) / 64.0
    sign = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return np.asarray(size * sign * oracle.scales())


def _tangents(
    rule: Rule, oracle: Differences, rng: np.random.Generator
) -> list[Vector]:
    """Dense directions over everything, then over each leaf alone."""
    out = [_dense(rule, oracle, rng) for _ in range(DENSE_TANGENTS)]
    leaves = list(rule.primal.domain)
    if len(leaves) > 1:
        for leaf in leaves[:ALONE]:
            u = np.zeros(rule.primal.domain.size)
            u[leaf.slice] = _dense(rule, oracle, rng)[leaf.slice]
            out.append(u)
    return out


def along(
    oracle: Differences,
    u: Vector,
    ybars: list[Vector],
    gots: list[Vector],
    owns: list[Vector],
    plan: str = "quick",
) -> list[Direction]:
    """<x̄, u> against <ȳ, J u> for each cotangent; outputs without an answer left out."""
    e = oracle.direction(u, plan)
    known = (e.code == Code.OK) & np.isfinite(e.value)
    out = []
    for ybar, got, own in zip(ybars, gots, owns, strict=True):
        weight = np.where(known, ybar, 0.0)
        value = np.where(known, e.value, 0.0)
        bound = float(np.abs(weight) @ np.where(known, e.bound, 0.0))
        rounding = float(np.sqrt(((own * u) ** 2).sum())) * 4.0
        share = float((own * np.abs(u)).sum())
        out.append(
            Direction(
                tangent=u,
                cotangent=ybar,
                got=float(got @ u),
                expected=float(weight @ value),
                bar=float(np.sqrt(((weight * np.where(known, e.bar, 0.0)) ** 2).sum())),
                bound=bound + min(share, rounding),
                scale=float(np.abs(weight * value).sum()),
                code=Code.OK if known.all() else Code(int(e.code.max())),
            )
        )
    return out


def _elementwise(
    rule: Rule, oracle: Differences, x: Vector, leaf: Leaf, rng: np.random.Generator
) -> bool:
    """Whether entry i of ``leaf`` moves only entry i of each output of its shape.

    Random halves of the leaf are moved by O(|x|), since small steps hide in rounding.
    """
    primal = oracle.primal
    if leaf.size < 2 or any(out.shape != leaf.shape for out in primal.codomain):
        return False
    if any(out.is_complex != leaf.is_complex for out in primal.codomain):
        return False
    for _ in range(2):
        half: Mask = rng.random(leaf.size) < 0.5
        if leaf.is_complex:
            half = np.repeat(half[::2], 2)
        moved = x.copy()
        step = oracle.scales()[leaf.slice] * rng.choice([-0.5, 0.5], leaf.size)
        moved[leaf.slice] = np.where(half, x[leaf.slice] + step, x[leaf.slice])
        moved = primal.domain.snap(
            np.clip(moved, primal.domain.lows(), primal.domain.highs())
        )
        value = primal.value(moved).value
        if value is None:
            return False
        for out in primal.codomain:
            a, b = value[out.slice][~half], oracle.value[out.slice][~half]
            if not np.array_equal(a, b, equal_nan=True):
                return False
    return not leaf.is_complex


def _diagonal(
    rule: Rule, oracle: Differences, ybar: Vector, singles: list[Leaf]
) -> Estimate:
    """x̄ expected on elementwise leaves, from one direction each; else UNMEASURED."""
    n = rule.primal.domain.size
    value, bar, bound = np.full(n, np.nan), np.zeros(n), np.zeros(n)
    code = np.full(n, Code.UNMEASURED, dtype=np.int8)
    left, right = np.full(n, np.nan), np.full(n, np.nan)
    for leaf in singles:
        u = np.zeros(n)
        u[leaf.slice] = oracle.scales()[leaf.slice]
        e = oracle.direction(u, "quick")
        if (e.code != Code.OK).any():
            e = oracle.direction(u, "thorough")
        step = u[leaf.slice]
        total, wide, widest = (
            np.zeros(leaf.size),
            np.zeros(leaf.size),
            np.zeros(leaf.size),
        )
        worst = np.zeros(leaf.size, dtype=np.int8)
        for out in rule.primal.codomain:
            weight = ybar[out.slice]
            total += (
                weight
                * np.where(np.isfinite(e.value[out.slice]), e.value[out.slice], 0)
                / step
            )
            wide += np.abs(weight) * e.bar[out.slice] / step
            widest += np.abs(weight) * e.bound[out.slice] / step
            worst = np.maximum(worst, e.code[out.slice])
        value[leaf.slice], bar[leaf.slice], bound[leaf.slice] = total, wide, widest
        code[leaf.slice] = worst
    return Estimate(
        value, bar, bound, np.zeros(n), code, left=left, right=right, method=oracle.method
    )  # fmt: skip


def _witnessed(
    rule: Rule, x: Vector, probes: list[Probe], directions: list[Direction]
) -> list[Probe]:
    """Probes whose unmeasured entries are filled by a witness that all directions bear out."""
    if all((p.expected.code != Code.UNMEASURED).all() for p in probes):
        return probes
    for witness in rule.witnesses():
        answers = [witness.vjp(x, p.cotangent).value for p in probes]
        if any(a is None or not np.isfinite(a).all() for a in answers):
            continue
        trusted = all(
            abs(float(a @ d.tangent) - d.expected) <= d.bound
            for a, p in zip(answers, probes, strict=True)
            for d in directions
            if d.cotangent is p.cotangent and a is not None
        )
        if trusted:
            return [
                _fill(rule, p, a, witness.name)
                for p, a in zip(probes, answers, strict=True)
                if a is not None
            ]
    return probes


def _fill(rule: Rule, probe: Probe, answer: Vector, name: str) -> Probe:
    e = probe.expected
    open_ = e.code == Code.UNMEASURED
    slack = same_answer_slack(rule.primal.domain, answer, probe.own)
    filled = replace(
        e,
        value=np.where(open_, answer, e.value),
        bar=np.where(open_, slack / 4, e.bar),
        bound=np.where(open_, slack, e.bound),
        code=np.where(open_, Code.OK, e.code).astype(np.int8),
        method=f"{e.method}; entries named by {name}",
    )
    return replace(probe, expected=filled)


def _named(
    rule: Rule, oracle: Differences, found: Compared, rng: np.random.Generator
) -> Compared:
    """What is wrong, by index: suspicious and random columns, measured one by one."""
    probe = found.probes[0]
    n, m = rule.primal.domain.size, rule.primal.codomain.size
    accused = np.flatnonzero(probe.wrong)
    if not len(accused) and any(off(d) for d in found.directions):
        accused = _halve(rule, oracle, found, rng)
    spread = rng.choice(n, size=min(n, NAMED_COLUMNS), replace=False)
    keep = accused[_spaced(len(accused), NAMED_COLUMNS)]
    cols = np.unique(np.concatenate([keep, spread]).astype(np.int64))
    c = oracle.columns(cols, "thorough")
    rows = np.arange(m)
    if m > NAMED_ROWS:
        with np.errstate(invalid="ignore"):
            strength = np.nan_to_num(np.abs(c.value)).max(axis=1)
        rows = np.sort(np.argsort(-strength, kind="stable")[:NAMED_ROWS])
    implied, own = implied_rows(rule, probe.point, rows, rng)
    block = Block(
        rows=rows,
        cols=cols,
        implied=implied[:, cols],
        value=c.value[rows],
        bar=c.bar[rows],
        bound=c.bound[rows],
        code=c.code[rows],
        own=own[:, cols],
        left=c.left[rows],
        right=c.right[rows],
        method=oracle.method,
        evaluations=c.evaluations,
    )
    probes = tuple(_columns_into(p, cols, c, rule) for p in found.probes)
    # A witness alone accuses nobody: where the columns clear what it said, it is dropped.
    if not any(off(d) for d in found.directions) and not block.wrong.any():
        cleared = np.isin(np.arange(n), cols)
        if not any(p.wrong[cleared].any() for p in probes):
            probes = tuple(_unmeasure(p, ~cleared) for p in probes)
    return replace(found, block=block, probes=probes, evaluations=oracle.evaluations)


def _spaced(count: int, most: int) -> np.ndarray:
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).astype(np.int64))


def _columns_into(probe: Probe, cols: np.ndarray, c: object, rule: Rule) -> Probe:
    """Replace entries of the expectation by those of columns measured one by one."""
    e = probe.expected
    value, bar, bound, code = (a.copy() for a in (e.value, e.bar, e.bound, e.code))
    y = probe.cotangent
    cv, cb, cw, cc = (getattr(c, k) for k in ("value", "bar", "bound", "code"))
    value[cols] = y @ np.where(np.isfinite(cv), cv, 0.0)
    bar[cols] = np.sqrt(((np.abs(y)[:, None] * cb) ** 2).sum(axis=0))
    bound[cols] = (np.abs(y)[:, None] * cw).sum(axis=0)
    code[cols] = cc.max(axis=0)
    return replace(
        probe, expected=replace(e, value=value, bar=bar, bound=bound, code=code)
    )


def _unmeasure(probe: Probe, mask: Mask) -> Probe:
    e = probe.expected
    code = np.where(mask, Code.UNMEASURED, e.code).astype(np.int8)
    return replace(probe, expected=replace(e, code=code))


def _halve(
    rule: Rule, oracle: Differences, found: Compared, rng: np.random.Generator
) -> np.ndarray:
    """One coordinate that is wrong, by halving a direction that disagrees."""
    bad = max(
        (d for d in found.directions if off(d)),
        key=lambda d: abs(d.got - d.expected) / (d.bound or 1.0),
    )
    probe = next(p for p in found.probes if p.cotangent is bad.cotangent)
    live = np.flatnonzero(bad.tangent)
    while len(live) > 1:
        half = live[: len(live) // 2]
        rest = live[len(live) // 2 :]
        part = np.zeros_like(bad.tangent)
        part[half] = bad.tangent[half]
        first = along(oracle, part, [probe.cotangent], [probe.got], [probe.own])[0]
        if off(first):
            live = half
            continue
        part = np.zeros_like(bad.tangent)
        part[rest] = bad.tangent[rest]
        second = along(oracle, part, [probe.cotangent], [probe.got], [probe.own])[0]
        if not off(second):
            break
        live = rest
    return live if len(live) <= NAMED_COLUMNS else live[:NAMED_COLUMNS]
