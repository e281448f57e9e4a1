"""How many digits may the rule itself lose? Asked by shaking its inputs by one ulp."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from gradproof.oracles import settled
from gradproof.rule import Primal, Rule
from gradproof.space import Mask, Space, Vector, underflow, unit

Array = np.ndarray[Any, np.dtype[np.float64]]

# A vjp is a composition of correctly rounded steps; shaking the inputs by one ulp moves
# the result by what its conditioning makes of one rounding. Eight such moves cover the
# rounding of the steps in between for every operator that was measured.
SAFETY = 8.0
SHAKES = 4
FURTHER = 12  # shakes where the first ones moved the answer by more than rounding does
MANY = 1 << 16  # coordinates from which half as many shakes must do, for twice the room


def own_rounding(
    rule: Rule,
    x: Vector,
    ybar: Vector,
    got: Vector,
    rng: np.random.Generator,
    like: Primal | None = None,
) -> Vector:
    """Rounding that ``got`` = vjp(x, ȳ) may carry, entry by entry.

    The largest change over a few one-ulp shakes of x and ȳ, no smaller than the r.m.s.
    change over its leaf, times a safety factor, plus a few ulps of the entry itself
    and what is lost to underflow.
    Of many entries fewer shakes are made, and the safety factor is larger.
    ``like`` names the precisions whose ulps are meant, where they are not the rule's.
    """
    like = like or rule.primal
    domain, codomain = like.domain, like.codomain
    share = 2 if max(domain.size, codomain.size) >= MANY else 1

    def ask() -> Array:
        reply = rule.vjp(shake(domain, x, rng), shake(codomain, ybar, rng)).value
        return np.full(domain.size, np.nan) if reply is None else reply

    spread = moves(ask, got, SHAKES // share, jump(domain, got))
    out = np.empty(domain.size)
    for leaf in domain:
        part = spread[leaf.slice]
        part = np.where(np.isfinite(part), part, 0.0)
        usual = typical(part, got[leaf.slice], unit(leaf.precision))
        out[leaf.slice] = share * SAFETY * np.maximum(part, usual)
        out[leaf.slice] += underflow(leaf.precision)
    magnitude = np.where(np.isfinite(got), np.abs(got), 0.0)
    return out + SAFETY * domain.units() * magnitude


def moves(ask: Callable[[], Array], got: Array, shakes: int, far: Array) -> Array:
    """By how much ``got`` moves when its inputs do by one ulp, entry by entry.

    Where the shaken answers are ``far`` from ``got`` they are asked for more often. If
    they agree with each other and not with it, then x has a branch of its own (x == 1,
    say), which is no rounding: what they differ by among themselves is.

    Args:
        ask: the answer at inputs shaken anew, NaN where there is none.
        got: the answer at the inputs themselves, of the same shape.
        shakes: how often to ask.
        far: moves that rounding alone hardly makes; broadcast against ``got``.
    """
    low = np.full(got.shape, np.nan)
    high = low.copy()
    for times in (shakes, FURTHER):
        for _ in range(times):
            answer = ask()
            low, high = np.fmin(low, answer), np.fmax(high, answer)
        with np.errstate(invalid="ignore", over="ignore"):
            move = np.fmax(got - low, high - got)
            jumped = np.isfinite(move) & (move > far)
        if not jumped.any():
            break
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            width = high - low
            alone = (got < low - 2.0 * width) | (got > high + 2.0 * width)
        move = np.where(jumped & alone, width, move)
    return np.where(np.isfinite(move), move, 0.0)


def jump(domain: Space, got: Array) -> Array:
    """What rounding hardly moves the entries of ``got`` by; the last axis is of inputs."""
    out = np.zeros(got.shape)
    size = np.where(np.isfinite(got), np.abs(got), 0.0)
    for leaf in domain:
        top = size[..., leaf.slice].max(initial=0.0)
        out[..., leaf.slice] = np.sqrt(unit(leaf.precision)) * top
    return out


def typical(spread: Array, got: Array, unit: float) -> float:
    """The r.m.s. of ``spread``, the moves of the entries ``got`` of one leaf.

    An entry that moves by more than √unit of the largest took another branch (a relu
    at 0, a tie). While such entries are the fewer they speak for themselves only, for
    else one kink would hide every mistake beside it.
    """
    size = np.abs(np.where(np.isfinite(got), got, 0.0))
    top = float(spread.max(initial=0.0))
    if top == 0.0:
        return 0.0
    branched = spread > np.sqrt(unit) * size.max(initial=0.0)
    live = (spread > 0) | (size > 0)
    if 2 * int(branched.sum()) > int(live.sum()):
        branched[...] = False
    moves = spread[~branched] / top  # scaled, so that no square overflows
    return top * float(np.sqrt(np.mean(moves**2))) if moves.size else 0.0


def shake(space: Space, v: Vector, rng: np.random.Generator) -> Vector:
    """``v`` with every entry moved up or down by one number of its precision.

    A 0 stays: it has no digits to lose, and what a rule does at 0 alone is no rounding.
    """
    sign = np.where(rng.random(space.size) < 0.5, -1.0, 1.0)
    moved = space.snap(settled(space, v, v + sign * space.spacing(v)))
    inside = (moved >= space.lows()) & (moved <= space.highs())
    return np.where(inside & np.isfinite(v) & (v != 0), moved, v)


def within_rounding(space: Space, v: Vector) -> Vector:
    """By how much each entry moves when a number of ordinary size is added to it.

    Ordinary is 1, or the largest of its leaf, if that is not a thousand times less.
    """
    usual = leaf_scale(space, v)
    ordinary = np.fmax(usual, np.fmin(1.0, 1024.0 * usual))
    return np.asarray(2.0 * space.units() * ordinary)


def by_chance(
    rule: Rule, x: Vector, ybar: Vector, got: Vector, asks: int = 2 * SHAKES
) -> Vector | None:
    """How far ``got`` = vjp(x, ȳ) moves where all is rounded up or down at random.

    A formula that cancels is stairs: shaking its inputs by one ulp does not show how few
    digits it has. No less than the r.m.s. of its leaf; ∞ where it may overflow. None
    where the framework's arithmetic cannot be reached.
    """
    first = rule.rounded(x, ybar, 0)
    if first is None:
        return None
    seeds, endless = count(), np.zeros(len(got), dtype=bool)

    def ask() -> Array:
        seed = next(seeds)
        reply = rule.rounded(x, ybar, seed) if seed else first
        if reply is None or reply.value is None:
            return np.full(len(got), np.nan)
        endless[np.isfinite(reply.value) != np.isfinite(got)] = True
        return reply.value

    out = moves(ask, got, asks, jump(rule.primal.domain, got))
    out[endless] = np.inf
    for leaf in rule.primal.domain:
        part = out[leaf.slice]
        known = part[np.isfinite(part)]
        usual = float(np.sqrt(np.mean(known**2))) if known.size else 0.0
        out[leaf.slice] = np.fmax(part, usual)
    return SAFETY * out


def too_large(got: Array, truth: Array, bound: Array, tops: Array) -> Mask:
    """Where ``got`` is ∞ since no number up to ``tops`` is the truth: rounded, it is ∞."""
    with np.errstate(invalid="ignore", over="ignore"):
        beyond = np.abs(truth) + bound >= 0.5 * tops
        return np.asarray(np.isinf(got) & (got * truth > 0) & beyond)


def leaf_scale(space: Space, v: Vector) -> Vector:
    """The largest finite |v| of each entry's leaf."""
    out = np.zeros(space.size)
    for leaf in space:
        part = np.abs(v[leaf.slice])
        part = part[np.isfinite(part)]
        out[leaf.slice] = float(part.max()) if part.size else 0.0
    return out


def nearness(unit: float, top: float, usual: float) -> tuple[float, float]:
    """How near the values of one function in two precisions must be.

    A share of the value, or of the second number where the value is smaller.

    Args:
        unit: the unit roundoff of the coarser one.
        top: the largest value.
        usual: the r.m.s. of the values.
    """
    # In half precision a thousand roundings would let any other function through, such
    # as one that draws other numbers; and values near 0 are differences of usual ones.
    half = unit > HALF
    return min(1e3 * unit, 0.06), max(1e-2 * top, 0.5 * usual if half else 0.0)


HALF = 2.0**-12  # a coarser unit roundoff is that of half precision


# What two correctly computed answers to the same question may differ by, relative to the
# largest entry of the leaf: rounding of other kernels, reductions in another order, and
# iterative solves inside a backward. Mistakes of state or layout are far larger.
SAME = {"float64": 1e-7, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}


def same_answer_slack(space: Space, got: Vector, own: Vector) -> Vector:
    """Slack between two answers that ought to be the same, entry by entry."""
    share = np.empty(space.size)
    for leaf in space:
        share[leaf.slice] = SAME[leaf.precision]
    return share * leaf_scale(space, got) + 4.0 * own
