"""Which comparison of a rule with its oracle, at which points and settings."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from gradproof.checks import (
    constrained,
    gradient,
    infinite,
    refining,
    sampled,
    stopping,
    worth,
)
from gradproof.checks.gradient import MACHINE, Compared
from gradproof.checks.rounding import SHAKES, by_chance, nearness
from gradproof.oracles import Charted, best, cancels, chart, explained, settled
from gradproof.patience import TooLong, allowance, patience
from gradproof.proof.run import Run, seconds_of
from gradproof.rule import Rule
from gradproof.space import Matrix, Vector
from gradproof.verdict import (
    Code,
    Elsewhere,
    Undecided,
    Verdict,
)

SHORT = (
    "every entry of the Jacobian would take about {planned:.2g} s, and budget= allows "
    "{allowed:.2g} s; directions were compared, so the limits are coarser"
)
UNWALKED = (
    "the gradient is {share:.1e} off, as that of a solver may be which stops early, and "
    "the forward is too slow to look for where it stops"
)
APPROXIMATE = (
    "if the function only approximates what this is the gradient of (a fixed number of "
    "steps, a grid), refine= tells what shrinks with them from a mistake"
)
WALK = "refine= with settings that make the forward more exact, or a larger budget="
WALKING = 6.0  # times budget= that looking for where the forward stops may take
CONFIRMING = 10.0  # times budget= that thorough measurements may take
LONG = 5.0  # seconds from which on a plan is told with its estimate
PLANNED = "the gradient, about {seconds:.2g} s as planned"
LARGE = 1 << 16  # inputs or outputs from which a call is not cheap


GLANCE = 4.0  # times what few answers rounded at random differ by
STAIRS = 4.0  # times what shaking shows, from which on a formula cancels
WHOLE_ENTRIES = 1 << 18  # a Jacobian of more entries is not formed


# How far away a function is asked whether it ever changes: a maximum with a constant, a
# clamp, or a hinge may lie some way off.
WIDER = (4.0, 4.0, 16.0, 16.0, 64.0, 64.0, 1.0, 256.0)

# A mismatch smaller than this share of the Jacobian may be that of a truncated solver.
SMALL_MISMATCH = 0.03


# The same rule at settings that make its forward more exact: label, number, rule.
Refined = tuple[str, float | None, Rule]


def another_point(run: Run) -> Vector:
    """Another point, some way off, inside the domain's bounds."""
    size = np.maximum(np.abs(run.x), 0.25)
    step = size * run.rng.choice([-0.25, 0.25, 0.375], run.domain.size)
    moved = np.clip(run.x + step, run.domain.lows(), run.domain.highs())
    moved = np.where(np.isfinite(run.x), moved, run.x)
    return run.domain.snap(settled(run.domain, run.x, moved))


def truth_rule(rule: Rule) -> Rule | None:
    """The same rule in float64, where the forward is proven to be the same function."""
    if all(leaf.precision == "float64" for leaf in rule.primal.domain):
        return None
    primal = rule.primal
    try:
        with patience(allowance(lambda: primal.value(primal.point))):
            wide = rule.in_precision("float64")
    except TooLong:
        return None
    if wide is None:
        return None
    a = primal.value(primal.point).value
    b = wide.primal.value(wide.primal.point).value
    if a is None or b is None or a.shape != b.shape:
        return None
    coarse = max(rule.primal.domain.unit, rule.primal.codomain.unit)
    size = np.abs(np.nan_to_num(b, posinf=0.0, neginf=0.0))
    usual = float(np.sqrt(np.mean(size**2))) if size.size else 0.0
    room, least = nearness(coarse, float(size.max(initial=0.0)), usual)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= room * np.maximum(np.abs(b), least)
    if (near | (np.isnan(a) & np.isnan(b)) | (a == b)).all():
        return wide
    return wide if explained(primal, wide.primal, primal.point) else None


def compare(run: Run, rule: Rule) -> Compared:
    """The whole Jacobian where it is affordable, directions otherwise."""
    return compare_at(run, rule, run.x)


def compare_at(run: Run, rule: Rule, x: Vector) -> Compared:
    """The comparison at ``x``, on the tangent space where x lies in a declared set."""
    at = chart(rule.primal.domain, x)
    if at is None:
        found = compare_plainly(run, rule, x)
        return accepting(run, rule, found)
    inner = constrained.ChartedRule(rule, at)
    found = constrained.back(at, compare_plainly(run, inner, at.point))
    return accepting(run, rule, found)


def accepting(run: Run, rule: Rule, found: Compared) -> Compared:
    """``found``, with the error that the caller tolerates."""
    primal = rule.primal
    return gradient.accepting(
        found, run.options.tolerate, primal.domain, primal.codomain
    )


def compare_plainly(run: Run, rule: Rule, x: Vector) -> Compared:
    """The comparison at ``x``: whole where the plan allows it, else sampled."""
    oracle = run.best(rule.primal, x)
    n, m = rule.primal.domain.size, rule.primal.codomain.size
    once = seconds_of(lambda: rule.primal.value(x))
    back = seconds_of(lambda: rule.vjp(x, run.ybar))
    planned = 5 * n * once + 3 * m * back
    if n * m <= WHOLE_ENTRIES and (planned <= run.options.seconds or n + m <= 16):
        allowed = CONFIRMING * run.options.seconds
        if planned > LONG:
            run.options.reached(PLANNED.format(seconds=planned), 0.15)
        found = gradient.whole(rule, oracle, x, run.ybar, run.rng, (once, allowed))
        return by_rounding(rule, infinite.at_infinity(oracle, found))
    ybars, allowed = [run.ybar, run.other], run.options.seconds
    found = sampled.sampled(rule, oracle, x, ybars, run.rng, allowed)
    if n * m <= WHOLE_ENTRIES:
        note = SHORT.format(planned=planned, allowed=allowed)
        found = replace(found, short=(note, *found.short))
    return found


def by_rounding(rule: Rule, found: Compared) -> Compared:
    """``found``, a rule being excused by how far rounding at random moves its answer.

    A formula that cancels is stairs as its forward is: shaking its input shows nothing.
    What shaking shows is no such thing, and in the limits of detection already. It is
    asked of the worst row first, and no further once an entry is beyond excuse.
    """
    b = found.block
    primal = rule.primal
    if b is None or not b.wrong.any():
        return found
    if primal.domain.unit > MACHINE and not cancels(primal, found.point):
        return found
    share, hot = np.zeros_like(b.own), np.zeros(primal.codomain.size)
    with np.errstate(invalid="ignore"):
        gap = np.where(b.wrong, np.abs(b.implied - b.value), 0.0)
    gap = np.where(np.isfinite(gap), gap, np.inf)
    worst = (gap / np.maximum(b.bound + b.own, 2.0**-1022)).max(axis=1)
    for i in np.argsort(-worst, kind="stable")[: gradient.CONFIRMED_COLUMNS]:
        if worst[i] == 0.0:
            break
        hot[:] = 0.0
        hot[i] = 1.0
        for asks, margin in ((2, GLANCE), (2 * SHAKES, 1.0)):
            moved = by_chance(rule, found.point, hot, b.implied[i], asks)
            if moved is None:
                return found
            share[i] = np.where(moved > STAIRS * b.own[i], moved, 0.0)
            room = b.bound[i] + b.own[i] + margin * share[i]
            # One entry that is wrong in spite of all is enough to accuse the rule.
            if (b.wrong[i] & ~(gap[i] <= room)).any():
                return found
    return excusing(found, share)


def at_settings(
    run: Run, found: Compared, refined: tuple[Refined, ...]
) -> refining.Weighed:
    """The mismatch at settings that make the forward more exact."""
    if not refined:
        return refining.Weighed(found)
    state = copy.deepcopy(run.rng)
    settings_ = []
    for label, number, rule in refined:
        again = replace(run, rule=rule, rng=copy.deepcopy(state))
        there = compare_at(again, truth_rule(rule) or rule, run.x)
        settings_.append(refining.Setting(label, number, there))
    out = refining.weigh(found, settings_)
    tight, note = refining.tightest(settings_)
    if out.found.wrong or tight.wrong or out.undecided:
        return out
    open_ = [
        worth.unanswered(c, run.domain, run.codomain)[0] for c in (out.found, tight)
    ]
    if open_[0] and not open_[1]:
        return replace(out, found=tight, notes=(*out.notes, note))
    return out


def stopping_early(
    run: Run, rule: Rule, found: Compared
) -> tuple[Compared, tuple[Elsewhere, ...], tuple[Undecided, ...]]:
    """A small mismatch is weighed against the jumps of a forward that stops early."""
    b = found.block
    if b is None or not b.whole or not b.wrong.any():
        return found, (), ()
    with np.errstate(invalid="ignore"):
        apart = np.where(b.wrong, np.abs(b.implied - b.value), 0.0)
    gap = float(np.nan_to_num(apart, nan=np.inf).max())
    size = float(np.nan_to_num(np.abs(b.value)).max())
    if not gap <= SMALL_MISMATCH * size or in_last_digits(run, found) is not None:
        return found, (), ()
    scales = run.best(rule.primal, run.x).scales()
    at = chart(rule.primal.domain, run.x)
    primal = rule.primal if at is None else Charted(rule.primal, at)
    steps = scales if at is None else best(primal).scales()
    allowed = WALKING * run.options.seconds
    jumps = stopping.stopping(primal, steps, run.rng, allowed)
    if jumps is None:
        detail = UNWALKED.format(share=gap / size)
        open_ = Undecided("inexact", "the whole gradient", detail, WALK)
        room = 1.001 * apart
        return excusing(found, room), (), (open_,)
    wider = excusing(found, stopping.excused(jumps, run.value, scales))
    if wider.wrong:
        pair = run.rule.source.kind == "pair"
        hint = (APPROXIMATE,) if pair and not np.any(jumps) else ()
        return replace(found, short=(*found.short, *hint)), (), ()
    note = (
        f"the forward jumps by up to {jumps.max():.1e} where it stops an iteration "
        f"later, and the gradient is {gap:.1e} from that of the iterations taken"
    )
    early = Elsewhere("as it stops early", "refine", Verdict.FAIL, note=note)
    return wider, (early,), ()


def in_last_digits(run: Run, found: Compared) -> Compared | None:
    """``found`` without a mismatch that lies in the last digits alone, if it does."""
    if found.block is None or not found.block.whole or not found.wrong:
        return None
    room = stopping.last_digits(found.block, run.domain, run.codomain)
    wider = excusing(found, room)
    return None if wider.wrong else wider


def excusing(found: Compared, share: Matrix) -> Compared:
    """``found`` with this much more room for each entry of its whole block."""
    if found.block is None:
        return found
    block = replace(found.block, own=found.block.own + share)
    probes = tuple(
        replace(p, own=p.own + np.abs(p.cotangent) @ share) for p in found.probes
    )
    return replace(found, block=block, probes=probes)


def kinked(run: Run, rule: Rule, found: Compared) -> bool:
    """Whether kinks are what left outputs out of the directions."""
    odd = [d for d in found.directions if d.left_out]
    if not odd or chart(rule.primal.domain, found.point) is not None:
        return False
    oracle = run.best(rule.primal, found.point)
    code = oracle.direction(odd[0].tangent, "thorough").code
    return int((code == Code.KINK).sum()) * 2 > int((code != Code.OK).sum())


def vague(run: Run, found: Compared) -> bool:
    """Whether a wrong gradient could have hidden in the values given."""
    if worth.hides([run.x[leaf.slice] for leaf in run.domain]):
        return True
    b = found.block
    if b is None or not b.whole:
        return False
    return any(
        not b.value[out.slice, leaf.slice].any()
        and not b.implied[out.slice, leaf.slice].any()
        for out in run.codomain
        for leaf in run.domain
    )


def moved_point(run: Run, rule: Rule) -> Compared | None:
    """The comparison at other values of the same shape; None where none are valid."""
    scale = run.best(rule.primal, run.x).scales()
    for size in (1.0, 0.25):
        draw = run.rng.integers(16, 96, run.domain.size) / 64.0
        sign = np.where(run.rng.random(run.domain.size) < 0.5, -1.0, 1.0)
        x = np.clip(
            run.x + size * scale * draw * sign, run.domain.lows(), run.domain.highs()
        )
        x = run.domain.snap(settled(run.domain, run.x, x))
        value = rule.primal.value(x).value
        if value is not None and np.isfinite(value).all():
            return compare_at(run, rule, x)
    return None


def never_changes(run: Run, found: Compared) -> bool:
    """No derivative anywhere, and no value that ever changes: nothing could be seen."""
    b = found.block
    if b is not None and b.whole:
        if b.value.any() or b.implied.any() or (b.code != Code.OK).any():
            return False
    elif any(d.expected != 0 or d.got != 0 for d in found.directions):
        return False
    known = np.isfinite(run.value)
    for size in WIDER:
        step = size * run.rng.uniform(-1, 1, run.domain.size)
        x = np.clip(run.x + step, run.domain.lows(), run.domain.highs())
        x = settled(run.domain, run.x, x)
        value = run.rule.primal.value(run.domain.snap(x)).value
        if value is not None:
            both = known & np.isfinite(value)
            if (value[both] != run.value[both]).any():
                return False
    return True
