"""Does the rule answer the same however it is asked?"""

from __future__ import annotations

import numpy as np

from gradproof.checks.rounding import same_answer_slack
from gradproof.rule import PLAIN, Reply, Rule, Way
from gradproof.space import Vector
from gradproof.verdict import Asked, Severity


def asked(rule: Rule, x: Vector, ybar: Vector, own: Vector) -> tuple[Asked, ...]:
    """Every way of asking; a merged one is split only where it disagrees."""
    known: dict[bytes, Reply] = {}
    out: list[Asked] = []
    for way in rule.ways():
        first = _ask(rule, way, x, ybar, own, known)
        parts = getattr(way, "parts", ())
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
    at, cotangent = way.place(x, ybar)
    key = at.tobytes() + cotangent.tobytes()
    if key not in known:
        known[key] = rule.vjp(at, cotangent, PLAIN)
    plain = known[key].value
    if plain is None:  # the plain question fails here too: nothing to compare with
        return _agreed(way)
    reply = rule.vjp(at, cotangent, way)
    if reply.failure is not None:
        raises = bool(way.raised)
        return Asked(
            way.name,
            way.factor,
            way.raised or way.slug,
            agreed=False,
            failure=reply.failure,
            severity=way.raised_severity if raises else Severity.ERROR,
            effects=reply.effects,
        )
    got = reply.value
    if got is None:  # the way does not apply to this rule
        return _agreed(way)
    truth = way.fold(plain)
    # A fold may cancel; its rounding is that of what was summed.
    slack = np.maximum(
        same_answer_slack(rule.primal.domain, truth, own),
        same_answer_slack(rule.primal.domain, plain, own),
    )
    if way.unit:
        for leaf in rule.primal.domain:
            top = np.abs(np.nan_to_num(truth[leaf.slice])).max(initial=0.0)
            slack[leaf.slice] += 64 * way.unit * top
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


def repeats(
    rule: Rule, x: Vector, ybar: Vector, got: Vector, times: int = 3
) -> tuple[float, float]:
    """Spread of vjp(x, ȳ) over repeats: (in ulps of the entry, relative to its leaf)."""
    spread = np.zeros_like(got)
    for _ in range(times):
        value = rule.vjp(x, ybar).value
        if value is None:
            return float("inf"), float("inf")
        with np.errstate(invalid="ignore"):
            gap = np.abs(value - got)
        gap[(value == got) | (np.isnan(value) & np.isnan(got))] = 0.0
        spread = np.fmax(spread, gap)
    domain = rule.primal.domain
    ulps = float((spread / domain.spacing(np.nan_to_num(got))).max(initial=0.0))
    share = 0.0
    for leaf in domain:
        top = float(np.abs(np.nan_to_num(got[leaf.slice])).max(initial=0.0))
        wide = float(spread[leaf.slice].max(initial=0.0))
        if wide > 0:
            share = max(share, wide / top if top > 0 else np.inf)
    return ulps, share
