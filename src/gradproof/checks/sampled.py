"""The same comparison where the whole Jacobian is too large: directions and structure.

Structure only chooses probes: every leaf is also compared along dense random directions,
so that no entry is excused by a guess about which output depends on which input.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.checks.gradient import Compared, endless, implied_rows, off
from gradproof.checks.rounding import own_rounding, same_answer_slack
from gradproof.oracles import Differences
from gradproof.rule import Primal, Reply, Rule
from gradproof.space import Leaf, Mask, Space, Vector, unit
from gradproof.verdict import Block, Code, Direction, Estimate, Probe

COTANGENTS = 2
DENSE_TANGENTS = 2
ALONE = 8  # leaves that get a direction of their own
NAMED_COLUMNS = 24  # columns measured one by one once something is wrong
NAMED_ROWS = 96
MOSTLY = 0.75  # of the outputs must be sharp for the others to be left out
DOUBTFUL = 1 << 12  # outputs that are measured thoroughly, at most
FEW_OUTPUTS = 1 << 14  # above which fewer columns are measured


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
    singles = [leaf for leaf in domain if _elementwise(oracle, x, leaf, rng)]
    probes = [
        Probe(x, ybar, got, _diagonal(rule, oracle, ybar, singles), own)
        for ybar, got, own in zip(ybars, gots, owns, strict=True)
    ]
    tangents = _tangents(rule, oracle, rng)
    directions = [d for u in tangents for d in along(rule, oracle, u, probes)]
    if any(off(d) for d in directions):
        again = [_dense(rule, oracle, rng), *tangents[DENSE_TANGENTS:]]
        directions = [
            d for u in again for d in along(rule, oracle, u, probes, "thorough")
        ]
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
    rule: Rule, oracle: Differences, u: Vector, probes: list[Probe], plan: str = "quick"
) -> list[Direction]:
    """<x̄, u> against <ȳ, J u> for each probe's cotangent ȳ.

    Outputs without a derivative along u (a kink between the steps) are left out: then
    the rule is asked again with ȳ zero there. The thorough plan differences the numbers
    <ȳ, f> themselves, so that its cost does not grow with the outputs.
    """
    e = oracle.direction(u, "quick")
    known = ~_doubtful(e)
    if known.mean() < MOSTLY:  # noise, rather than a kink here and there
        known = (e.code == Code.OK) & np.isfinite(e.value)
    code = Code.OK if known.any() else Code(int(e.code.max(initial=0)))
    weights = [np.where(known, p.cotangent, 0.0) for p in probes]
    gots = [p.got for p in probes]
    if not known.all():
        gots = [_vjp(rule, p.point, w) for p, w in zip(probes, weights, strict=True)]
        # At an infinite slope a weight of 0 makes NaN of what is left out.
        gots = [
            np.where(np.isinf(p.got) & np.isnan(g), 0.0, g)
            for p, g in zip(probes, gots, strict=True)
        ]
    value = np.where(known, e.value, 0.0)
    scales = [float(np.abs(w * value).sum()) for w in weights]
    if plan == "quick":
        numbers = [float(w @ value) for w in weights]
        bars = [
            float(np.sqrt(((w * np.where(known, e.bar, 0)) ** 2).sum()))
            for w in weights
        ]
        bounds = [float(np.abs(w) @ np.where(known, e.bound, 0.0)) for w in weights]
    else:
        few = Differences(_Projected(oracle.primal, weights), oracle.point)
        t = few.direction(u, "thorough")
        numbers, bars, bounds = (list(map(float, a)) for a in (t.value, t.bar, t.bound))
        code = Code(int(t.code.max(initial=code)))
        oracle.evaluations += few.evaluations
    out = []
    for k, p in enumerate(probes):
        share = float((p.own * np.abs(u)).sum())
        rounding = 4.0 * float(np.sqrt(((p.own * u) ** 2).sum()))
        out.append(
            Direction(
                tangent=u,
                cotangent=p.cotangent,
                got=float(gots[k] @ u),
                expected=numbers[k],
                bar=bars[k],
                bound=bounds[k] + min(share, rounding),
                scale=scales[k],
                code=code,
                left_out=int((~known).sum()),
            )
        )
    return out


class _Part(Primal):
    """What is left of a primal when its outputs are too many to fit curves to."""

    def __init__(self, whole: Primal, size: int) -> None:
        precision = max(whole.codomain, key=lambda leaf: unit(leaf.precision)).precision
        self.whole = whole
        self.domain, self.point = whole.domain, whole.point
        self.codomain = Space.of([Leaf("out", (size,), precision)])

    def part(self, value: Vector) -> Vector:
        raise NotImplementedError

    def value(self, x: Vector) -> Reply:
        reply = self.whole.value(x)
        return reply if reply.value is None else Reply(self.part(reply.value))


class _Projected(_Part):
    """The numbers <ȳ, f(x)>; outputs of weight zero may be anything."""

    def __init__(self, whole: Primal, weights: list[Vector]) -> None:
        super().__init__(whole, len(weights))
        self.weights = weights

    def part(self, value: Vector) -> Vector:
        return np.array([w @ np.where(w != 0, value, 0.0) for w in self.weights])


class _Rows(_Part):
    """Some outputs only."""

    def __init__(self, whole: Primal, rows: np.ndarray) -> None:
        super().__init__(whole, len(rows))
        self.rows = rows

    def part(self, value: Vector) -> Vector:
        return np.asarray(value[self.rows])


def _elementwise(
    oracle: Differences, x: Vector, leaf: Leaf, rng: np.random.Generator
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
        e = _closer(oracle, u, e)
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


def _doubtful(e: Estimate) -> Mask:
    """Outputs without a derivative, or with a bound that would hide a part in 1000."""
    size = np.abs(np.nan_to_num(e.value))
    typical = float(np.median(size[size > 0])) if (size > 0).any() else 0.0
    with np.errstate(invalid="ignore"):
        loose: Mask = ~(e.bound <= 1e-3 * np.maximum(size, typical))
    out: Mask = loose | (e.code != Code.OK) | ~np.isfinite(e.value)
    return out


def _closer(oracle: Differences, u: Vector, e: Estimate) -> Estimate:
    """``e`` with its doubtful outputs measured thoroughly, where they are few."""
    rows = np.flatnonzero(_doubtful(e))
    if not 0 < len(rows) <= DOUBTFUL:
        return e
    part = Differences(_Rows(oracle.primal, rows), oracle.point)
    t = part.direction(u, "thorough")
    oracle.evaluations += part.evaluations
    value, bar, bound = e.value.copy(), e.bar.copy(), e.bound.copy()
    code = e.code.copy()
    value[rows], bar[rows], bound[rows], code[rows] = t.value, t.bar, t.bound, t.code
    return replace(e, value=value, bar=bar, bound=bound, code=code)


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
        accused = _halve(rule, oracle, found)
    most = NAMED_COLUMNS if m <= FEW_OUTPUTS else NAMED_COLUMNS // 3
    spread = rng.choice(n, size=min(n, most), replace=False)
    keep = accused[_spaced(len(accused), most)]
    cols = np.unique(np.concatenate([keep, spread]).astype(np.int64))
    probes, rows = _column_by_column(oracle, list(found.probes), cols)
    implied, own = implied_rows(rule, probe.point, rows, rng)
    part = Differences(_Rows(oracle.primal, rows), probe.point)
    c = part.columns(cols, "thorough")
    block = Block(
        rows=rows,
        cols=cols,
        implied=implied[:, cols],
        value=c.value,
        bar=c.bar,
        bound=c.bound,
        code=c.code,
        own=own[:, cols],
        left=c.left,
        right=c.right,
        method=oracle.method,
        evaluations=c.evaluations,
    )
    block = endless(block, probe)
    # A witness alone accuses nobody: where the columns clear what it said, it is dropped.
    if not any(off(d) for d in found.directions) and not block.wrong.any():
        measured = np.isin(np.arange(n), cols)
        if not any(p.wrong[measured].any() for p in probes):
            probes = [_unmeasure(p, ~measured) for p in probes]
    return replace(
        found,
        block=block,
        probes=tuple(probes),
        evaluations=oracle.evaluations + part.evaluations,
    )


def _column_by_column(
    oracle: Differences, probes: list[Probe], cols: np.ndarray
) -> tuple[list[Probe], np.ndarray]:
    """Expectations of ``probes`` at ``cols``, and the outputs that these columns move."""
    m = oracle.primal.codomain.size
    tables = [
        (e.value.copy(), e.bar.copy(), e.bound.copy(), e.code.copy())
        for e in (p.expected for p in probes)
    ]
    rows: set[int] = set(range(m)) if m <= NAMED_ROWS else set()
    each = max(2, NAMED_ROWS // len(cols))
    for j in cols:
        u = np.zeros(oracle.primal.domain.size)
        u[j] = 1.0
        e = oracle.direction(u, "quick")
        known = (e.code == Code.OK) & np.isfinite(e.value)
        value, bar, bound = (np.where(known, a, 0.0) for a in (e.value, e.bar, e.bound))
        for (values, bars, bounds, codes), p in zip(tables, probes, strict=True):
            weight = np.abs(p.cotangent)
            values[j] = p.cotangent @ value
            bars[j] = np.sqrt(((weight * bar) ** 2).sum())
            bounds[j] = weight @ bound
            codes[j] = e.code.max()
        if m > NAMED_ROWS:
            top = np.argpartition(-np.abs(value), each)[:each]
            rows.update(int(i) for i in top if value[i] != 0 or len(rows) < each)
    out = []
    for p, (values, bars, bounds, codes) in zip(probes, tables, strict=True):
        e = replace(p.expected, value=values, bar=bars, bound=bounds, code=codes)
        out.append(replace(p, expected=e))
    return out, np.array(sorted(rows), dtype=np.int64)


def _spaced(count: int, most: int) -> np.ndarray:
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).astype(np.int64))


def _unmeasure(probe: Probe, mask: Mask) -> Probe:
    e = probe.expected
    code = np.where(mask, Code.UNMEASURED, e.code).astype(np.int8)
    return replace(probe, expected=replace(e, code=code))


def _halve(rule: Rule, oracle: Differences, found: Compared) -> np.ndarray:
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
        first = along(rule, oracle, part, [probe])[0]
        if off(first):
            live = half
            continue
        part = np.zeros_like(bad.tangent)
        part[rest] = bad.tangent[rest]
        second = along(rule, oracle, part, [probe])[0]
        if not off(second):
            break
        live = rest
    return live if len(live) <= NAMED_COLUMNS else live[:NAMED_COLUMNS]
