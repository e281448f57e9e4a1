"""Does the rule answer the same however it is asked?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.checks.rounding import (
    SAFETY,
    SAME,
    leaf_scale,
    own_rounding,
    same_answer_slack,
)
from gradproof.rule import PLAIN, UNITS, Reply, Rule, Together, Way
from gradproof.space import Vector
from gradproof.verdict import Asked, Estimate, Probe, Severity

Arrays = Sequence[Any]  # one for each leaf


def asked(
    rule: Rule,
    x: Vector,
    ybar: Vector,
    own: Vector,
    ways: tuple[Way, ...] | None = None,
    settled: Together | None = None,
    got: Vector | None = None,
) -> tuple[Asked, ...]:
    """Every one of ``ways`` of asking, else all that the rule has by itself.

    A merged one is split only where it disagrees. What is ``settled`` is not asked again,
    nor the plain question, whose answer is ``got``.
    """
    known: dict[bytes, Reply] = {}
    if got is not None:
        known[x.tobytes() + ybar.tobytes()] = Reply(got)
    out: list[Asked] = []
    settled = settled or Together()
    for way in rule.ways() if ways is None else ways:
        parts = way.parts
        if _covered(way, settled):
            out += [_agreed(part) for part in parts or (way,)]
            continue
        if way.name in settled.replies:
            out.append(_failed(way, settled.replies[way.name]))
            continue
        first = _ask(rule, way, x, ybar, own, known)
        if not parts:
            out.append(first)
        elif first.agreed:
            out += [_agreed(part) for part in parts]
            # What was disturbed on the way is told by the merged way.
            out += [first] * bool(first.effects)
        else:
            split = [_ask(rule, part, x, ybar, own, known) for part in parts]
            # Only together they disagree: the merged way itself is the finding.
            out += split if not all(a.agreed for a in split) else [first]
    return tuple(out)


def together(rule: Rule, xs: Arrays, ybars: Arrays, xbars: Arrays) -> Together:
    """What many ways have in common, asked in one go on arrays of the view shapes.

    ``xbars`` is the plain answer. Only what two answers to the same question always may
    be off is allowed for: whatever is off by more is asked by itself.
    """
    shares = [SAME[leaf.precision] for leaf in rule.primal.domain]
    return rule.together(xs, ybars, xbars, shares)


def left(every: Sequence[Way], settled: Together) -> bool:
    """Whether some way is still to be asked."""
    return any(
        way.name not in settled.replies and not _covered(way, settled) for way in every
    )


def _covered(way: Way, settled: Together) -> bool:
    return settled.agreed.issuperset(part.name for part in way.parts or (way,))


def _agreed(way: Way) -> Asked:
    return Asked(way.name, way.factor, way.slug, agreed=True)


def _ask(
    rule: Rule,
    way: Way,
    x: Vector,
    ybar: Vector,
    own: Vector,
    known: dict[bytes, Reply],
) -> Asked:
    """One way held against the plain one."""
    at, cotangent = way.place(x, ybar)
    key = at.tobytes() + cotangent.tobytes()
    if key not in known:
        known[key] = rule.vjp(at, cotangent, PLAIN)
    plain = known[key].value
    if plain is None:  # the plain question fails here too: nothing to compare with
        return _agreed(way)
    reply = rule.vjp(at, cotangent, way)
    if reply.failure is not None:
        return _failed(way, reply)
    if reply.value is None:  # the way does not apply to this rule
        return _agreed(way)
    held = _held(rule, way, plain, reply, own)
    if held.agreed or np.array_equal(at, x, equal_nan=True):
        return held
    # Other numbers may be worse conditioned: entries all alike have no spread to divide by.
    rng = np.random.default_rng(0)
    there = own_rounding(rule, at, cotangent, plain, rng)
    return _held(rule, way, plain, reply, np.maximum(own, there))


def _failed(way: Way, reply: Reply) -> Asked:
    return Asked(
        way.name,
        way.factor,
        way.raised or way.slug,
        agreed=False,
        failure=reply.failure,
        severity=way.raised_severity if way.raised else Severity.ERROR,
        effects=reply.effects,
    )


def _held(rule: Rule, way: Way, plain: Vector, reply: Reply, own: Vector) -> Asked:
    """What a way answered, held against the plain answer."""
    got = reply.value
    assert got is not None  # the caller has looked
    truth = way.fold(plain)
    # A fold may cancel; its rounding is that of what was summed.
    slack = same_answer_slack(rule.primal.domain, plain, own)
    if truth is not plain:
        other = same_answer_slack(rule.primal.domain, truth, own)
        slack = np.maximum(slack, other)
    if way.unit:
        for leaf in rule.primal.domain:
            top = np.abs(np.nan_to_num(truth[leaf.slice])).max(initial=0.0)
            slack[leaf.slice] += UNITS * way.unit * top
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(got - truth) <= slack)
    bad &= ~(np.isnan(got) & np.isnan(truth)) & ~(got == truth)
    if way.covers is not None:
        bad &= way.covers
    if not bad.any():
        return Asked(way.name, way.factor, way.slug, agreed=True, effects=reply.effects)
    with np.errstate(invalid="ignore"):
        gap = np.where(bad, np.nan_to_num(np.abs(got - truth), nan=np.inf), -1.0)
    worst = int(np.argmax(gap))
    return Asked(
        way.name,
        way.factor,
        way.slug,
        agreed=False,
        worst=worst,
        got=float(got[worst]),
        expected=float(truth[worst]),
        slack=float(slack[worst]),
        count=int(bad.sum()),
        effects=reply.effects,
        answer=got,
        truth=truth,
        severity=way.severity,
    )


# A race that spoils one call in twenty is missed by so many repeats once in thirty
# times; a slow rule is asked for a while only, and three times at least.
REPEATS, REPEAT_SECONDS, REPEATS_AT_LEAST = 64, 0.05, 3


@dataclass(frozen=True, eq=False)
class Spread:
    """How vjp(x, ȳ) varies over repeats."""

    units: float = 0.0  # of the entry's own rounding
    worst: Vector | None = None  # the answer that was farthest from the first
    odd: int = 0  # how many answers were not the first to the bit
    calls: int = 0


def repeats(
    rule: Rule,
    x: Vector,
    ybar: Vector,
    got: Vector,
    own: Vector,
    *,
    patience: float = 1.0,
    known: int = 0,
) -> Spread:
    """How vjp(x, ȳ) varies over repeats; ``patience`` times as many as usual.

    ``known`` calls were asked before, each held against another answer.
    ``own`` is the rounding that ``got`` may carry: what a sum that cancels loses in
    another order is measured by that, not by the ulp of what is left.
    """
    spread = np.zeros_like(got)
    worst, farthest, odd, calls = None, 0.0, 0, 0
    tops = np.maximum(leaf_scale(rule.primal.domain, got), np.finfo(float).tiny)
    started = time.perf_counter()
    while calls < max(REPEATS_AT_LEAST, REPEATS * patience - known):
        spent = time.perf_counter() - started
        if calls >= REPEATS_AT_LEAST and spent > REPEAT_SECONDS * patience:
            break
        value = rule.vjp(x, ybar).value
        calls += 1
        if value is None:
            return Spread(float("inf"), None, odd + 1, calls)
        if np.array_equal(value, got):
            continue
        with np.errstate(invalid="ignore"):
            gap = np.abs(value - got)
        gap[(value == got) | (np.isnan(value) & np.isnan(got))] = 0.0
        gap = np.nan_to_num(gap, nan=np.inf)
        far = float((gap / tops).max(initial=0.0))
        odd += far > 0
        if far > farthest:
            worst, farthest = value, far
        spread = np.fmax(spread, gap)
    unit = np.maximum(rule.primal.domain.spacing(np.nan_to_num(got)), own / SAFETY)
    return Spread(float((spread / unit).max(initial=0.0)), worst, odd, calls)


def odd_one(
    rule: Rule, x: Vector, ybar: Vector, got: Vector, own: Vector, seen: Spread
) -> Probe | None:
    """The farthest answer against the first, where rounding cannot tell them apart.

    One of the two is no derivative then. None where all answers are near each other.
    """
    if seen.worst is None:
        return None
    expected = Estimate(
        value=got,
        bar=own / 4,
        bound=same_answer_slack(rule.primal.domain, got, own),
        noise=np.zeros_like(got),
        code=np.zeros(got.shape, np.int8),
        method="the same question before",
    )
    probe = Probe(x, ybar, seen.worst, expected, own)
    return probe if probe.wrong.any() else None
