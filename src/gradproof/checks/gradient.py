"""Does the vjp agree with the oracle? The whole Jacobian where that is affordable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradproof.checks import coarse
from gradproof.checks.confirming import CONFIRMED_COLUMNS as CONFIRMED_COLUMNS
from gradproof.checks.confirming import confirmed
from gradproof.checks.rounding import (
    SAFETY,
    jump,
    moves,
    own_rounding,
    shake,
    too_large,
    typical,
    within_rounding,
)
from gradproof.oracles import Differences
from gradproof.rule import Rule
from gradproof.space import Matrix, Space, Vector, largest, unit
from gradproof.verdict import Block, Code, Direction, Estimate, Limit, Located, Probe

MACHINE = 2.0**-53
TOGETHER = 8  # rows from which on to ask for them in one go is cheaper
THOROUGH = 64  # calls that a thorough measurement of one column takes, about
FEWEST = 2  # columns that are confirmed however slow the forward is
SHORT = (
    "measuring a column of the Jacobian thoroughly takes about {each:.2g} s, so {most} of "
    "the {count} suspicious ones were; a larger budget= allows more"
)


@dataclass(frozen=True, eq=False)
class Compared:
    """What the comparison of one rule with its oracle gave, at one point."""

    point: Vector
    block: Block | None = None
    probes: tuple[Probe, ...] = ()
    directions: tuple[Direction, ...] = ()
    elementwise: tuple[str, ...] = ()  # leaves whose whole diagonal was compared
    vjps: int = 0
    evaluations: int = 0
    method: str = ""
    whole: bool = True
    failures: tuple[str, ...] = field(default=())
    located: tuple[Located, ...] = ()
    short: tuple[str, ...] = ()  # what the budget did not allow, a sentence each
    limits: tuple[Limit, ...] = ()  # of structures, as told by the directions
    counts: tuple[int, int] | None = None  # pairs and entries, where none are kept

    @property
    def wrong(self) -> bool:
        """Whether some entry disagrees beyond everything that could excuse it."""
        return bool(
            (self.block is not None and self.block.wrong.any())
            or any(probe.wrong.any() for probe in self.probes)
            or any(off(d) for d in self.directions)
        )


def accepting(
    found: Compared, share: float, domain: Space, codomain: Space
) -> Compared:
    """``found`` with this relative error accepted, of each entry and each direction.

    An entry below a hundredth of the largest one of its leaf counts as that large.
    """
    if share == 0.0:
        return found
    block = found.block
    if block is not None:
        room = np.empty_like(block.value)
        size = np.abs(np.where(np.isfinite(block.value), block.value, 0.0))
        for out in codomain:
            rows = (block.rows >= out.start) & (block.rows < out.start + out.size)
            for leaf in domain:
                cols = (block.cols >= leaf.start) & (
                    block.cols < leaf.start + leaf.size
                )
                here = np.ix_(rows, cols)
                room[here] = share * _floored(size[here])
        block = replace(block, own=block.own + room)
    probes = []
    for probe in found.probes:
        size = np.abs(
            np.where(np.isfinite(probe.expected.value), probe.expected.value, 0)
        )
        own = probe.own.copy()
        for leaf in domain:
            own[leaf.slice] += share * _floored(size[leaf.slice])
        probes.append(replace(probe, own=own))
    directions = tuple(
        replace(d, bound=d.bound + share * d.scale) for d in found.directions
    )
    return replace(found, block=block, probes=tuple(probes), directions=directions)


def _floored(size: Any) -> Any:
    return np.maximum(size, 1e-2 * size.max(initial=0.0))


def off(direction: Direction) -> bool:
    """Whether a scalar probe disagrees beyond its bound."""
    return direction.code == Code.OK and not (
        abs(direction.got - direction.expected) <= direction.bound
    )


def whole(
    rule: Rule,
    oracle: Differences,
    x: Vector,
    ybar: Vector,
    rng: np.random.Generator,
    pace: tuple[float, float] = (0.0, np.inf),
) -> Compared:
    """Every entry of the Jacobian: implied by the rule against measured, and one vjp.

    Columns whose quick estimate disagrees, or has no answer, are measured again with
    fresh steps before anything is called wrong. ``pace`` is the seconds that a call
    takes, and those that all of this may take: how many columns is planned from it.
    """
    n, m = rule.primal.domain.size, rule.primal.codomain.size
    implied, own = implied_rows(rule, x, np.arange(m), rng)
    block = measured(oracle, np.arange(m), np.arange(n), implied, own, "quick")
    each = THOROUGH * pace[0]
    most = int(min(CONFIRMED_COLUMNS, max(FEWEST, pace[1] / max(each, 1e-9))))
    block, left = confirmed(oracle, block, most)
    block = held(rule.primal.domain, outside(oracle, endless(block)))
    block = beside_kinks(oracle, rule.primal.domain, block)
    block = coarse.unheard(block, oracle.value, rule.primal.codomain)
    got = rule.vjp(x, ybar).value
    if got is None:
        got = np.full(n, np.nan)
    probe = probe_of(block, x, ybar, got, own_rounding(rule, x, ybar, got, rng))
    return Compared(
        point=x,
        block=block,
        probes=(probe,),
        vjps=3 * m + 5,
        evaluations=oracle.evaluations,
        method=block.method,
        short=(SHORT.format(each=each, most=most, count=most + left),) if left else (),
    )


def outside(oracle: Differences, block: Block) -> Block:
    """``block`` without the NaNs of a rule asked where the function itself has some.

    0 · NaN is NaN: a gradient that is right inside the domain gives it for every
    cotangent as soon as one output lies outside.
    """
    if np.isfinite(oracle.value).all():
        return block
    lost = ~np.isfinite(block.implied)
    code = np.where(lost, Code.DOMAIN, block.code).astype(np.int8)
    return replace(block, code=code)


def held(domain: Space, block: Block) -> Block:
    """``block`` without an answer where a derivative is too large for its input's dtype."""
    tops = np.concatenate([np.full(a.size, largest(a.precision)) for a in domain])[
        block.cols
    ]
    beyond = too_large(block.implied, block.value, block.bound, tops)
    code = np.where(beyond, np.int8(Code.DOMAIN), block.code)
    return replace(block, code=code)


def implied_rows(
    rule: Rule, x: Vector, rows: np.ndarray, rng: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Rows of the Jacobian that the rule implies, and the rounding each may carry."""
    domain, codomain = rule.primal.domain, rule.primal.codomain

    def ask(at: Vector) -> Matrix:
        out = np.empty((len(rows), domain.size))
        for k, i in enumerate(rows):
            hot = np.zeros(codomain.size)
            hot[i] = 1.0
            value = rule.vjp(at, hot).value
            out[k] = np.nan if value is None else value
        return out

    implied = ask(x)
    far = jump(domain, implied)

    many = len(rows) >= TOGETHER
    still = rule.rows(x, rows) if many else None

    def shaken() -> Matrix:
        at = shake(domain, x, rng)
        together = rule.rows(at, rows) if still is not None else None
        # Only to see roundings: where it may be another answer they are asked singly.
        if still is None or together is None or (abs(still - implied) > far).any():
            return ask(at)
        moved = implied + (together - still)  # rows in one go may be rounded otherwise
        return moved if bool((abs(moved - implied) <= far).all()) else ask(at)

    spread = moves(shaken, implied, 2, far)
    own = np.empty_like(implied)
    for leaf in domain:
        part = spread[:, leaf.slice]
        usual = typical(part, implied[:, leaf.slice], unit(leaf.precision))
        own[:, leaf.slice] = SAFETY * np.maximum(part, usual)
    size = np.where(np.isfinite(implied), np.abs(implied), 0.0)
    coarse = np.maximum(domain.units()[None, :], codomain.units()[rows][:, None])
    return implied, own + SAFETY * coarse * size


def measured(
    oracle: Differences,
    rows: np.ndarray,
    cols: np.ndarray,
    implied: Matrix,
    own: Matrix,
    plan: str,
) -> Block:
    """The block of the Jacobian at ``rows`` × ``cols``; ``implied`` has those rows."""
    c = oracle.columns(cols, plan)
    block = Block(
        rows=rows,
        cols=cols,
        implied=implied[:, cols] if implied.shape[1] != len(cols) else implied,
        value=c.value[rows],
        bar=c.bar[rows],
        bound=c.bound[rows],
        code=c.code[rows],
        own=own[:, cols] if own.shape[1] != len(cols) else own,
        left=c.left[rows],
        right=c.right[rows],
        method=oracle.method,
        evaluations=c.evaluations,
    )
    return outside(oracle, block)


def some_columns(block: Block, cols: np.ndarray) -> Block:
    """The part of a block of all columns that lies at ``cols``."""
    names = ("implied", "value", "bar", "bound", "code", "own", "left", "right")
    return replace(
        block, cols=cols, **{name: getattr(block, name)[:, cols] for name in names}
    )


def beside_kinks(oracle: Differences, domain: Space, block: Block) -> Block:
    """``block`` without an answer where rounding decides on which side of a kink x lies.

    A rule that adds 1 to x = 1e-4 in bfloat16 is asked at 0, and a function lifted to
    float64 is not. So a slope that the function has within such a rounding is none to
    accuse, if it differs from the one at x.
    """
    if not oracle.lifted or domain.unit <= MACHINE or not block.wrong.any():
        return block
    x, steps = oracle.point, within_rounding(domain, oracle.point)
    code, sides = block.code.copy(), [block.left.copy(), block.right.copy()]
    for k in np.flatnonzero(block.wrong.any(axis=0))[:CONFIRMED_COLUMNS]:
        j = block.cols[k]
        step = np.zeros(len(x))
        step[j] = steps[j]
        near = [oracle.ask(x + t * step) for t in (-2.0, -1.0, 1.0, 2.0)]
        left = ((near[1] - near[0]) / step[j])[block.rows]
        right = ((near[3] - near[2]) / step[j])[block.rows]
        low, high = np.fmin(left, right), np.fmax(left, right)
        room = block.bound[:, k] + block.own[:, k] + 0.1 * (high - low)
        implied, off = block.implied[:, k], block.implied[:, k] - block.value[:, k]
        with np.errstate(invalid="ignore"):
            between = (implied >= low - room) & (implied <= high + room)
            bent = high - low > 0.5 * np.abs(off)
        here = between & bent & block.wrong[:, k]
        code[here, k] = Code.KINK
        for side, slope in zip(sides, (left, right), strict=True):
            side[here, k] = slope[here]
    return replace(block, code=code, left=sides[0], right=sides[1])


def endless(block: Block, probe: Probe | None = None) -> Block:
    """``block`` without an answer for the NaN that an infinite slope makes of 0 · ∞.

    Where the rule says ∞ and no finite derivative could be measured (a square root at
    0), no cotangent of 0 has a finite answer either: other rows of that column are NaN
    in any honest rule. ``probe`` may have met the ∞ in a row that the block lacks.
    """
    unbounded = (np.isinf(block.implied) & (block.code != Code.OK)).any(axis=0)
    if probe is not None:
        far = np.isinf(probe.got) & (probe.expected.code != Code.OK)
        unbounded |= far[block.cols]
    nothing = unbounded[None, :] & np.isnan(block.implied)
    if not nothing.any():
        return block
    code = np.where(nothing, np.int8(Code.DOMAIN), block.code)
    return replace(block, code=code)


def probe_of(block: Block, x: Vector, ybar: Vector, got: Vector, own: Vector) -> Probe:
    """The vjp that a whole measured Jacobian predicts, against the one given."""
    weight = np.abs(ybar)[:, None]
    safe = np.where(np.isfinite(block.value), block.value, 0.0)
    value = ybar @ safe
    bound = (weight * np.where(np.isfinite(block.bound), block.bound, 0.0)).sum(axis=0)
    bar = np.sqrt(
        ((weight * np.where(np.isfinite(block.bar), block.bar, 0.0)) ** 2).sum(axis=0)
    )
    code = np.where(ybar[:, None] != 0, block.code, 0).max(axis=0, initial=0)
    share = (weight * block.own).sum(axis=0) / max(1.0, np.sqrt(len(ybar)))
    expected = Estimate(
        value=value,
        bar=bar,
        bound=bound,
        noise=np.zeros_like(value),
        code=code.astype(np.int8),
        method=block.method,
    )
    return Probe(x, ybar, got, expected, np.maximum(own, share))
