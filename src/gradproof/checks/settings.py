"""The same rule in another setting: another dtype, forward mode, second order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.checks.rounding import (
    SAFETY,
    SHAKES,
    by_chance,
    leaf_scale,
    own_rounding,
    shake,
    too_large,
    within_rounding,
)
from gradproof.oracles import Differences, cancels
from gradproof.patience import TooLong, allowance, patience
from gradproof.rule import Reply, Rule
from gradproof.space import Space, Vector, largest
from gradproof.verdict import Asked, Code, Elsewhere, Estimate, Evidence, Probe, Verdict

# A native answer this far from the answer of the same rule in float64, relative to its
# leaf, is another computation and not rounding. Nearer than this and still beyond its
# own rounding it is inaccurate.
GROSS = {"float64": 1e-6, "float32": 2e-3, "float16": 3e-2, "bfloat16": 0.1}

# Values that differ by more, relative to the largest, are no longer the same function's.
ALIKE = 1e-3


def precision(
    rule: Rule, exact: Rule, x: Vector, ybar: Vector, rng: np.random.Generator
) -> tuple[Probe, float]:
    """``rule`` against ``exact``, the same rule in a wider dtype, at the same numbers.

    Returns:
        The probe (its bound is what counts as another computation), and the largest
        deviation in units of the rule's own rounding.
    """
    domain = rule.primal.domain
    reply = rule.vjp(x, ybar)
    got = _value(reply, domain.size)
    truth = _value(exact.vjp(x, ybar), domain.size)
    # What the question's conditioning makes of native rounding: asked of the exact rule,
    # since a native one that loses all its digits would excuse itself.
    own = own_rounding(exact, x, ybar, truth, rng, like=rule.primal)
    # Terms may cancel exactly in the wider dtype, and do not in this one.
    shown = own_rounding(rule, x, ybar, got, rng)
    own = np.fmax(own, np.fmin(shown, _cancelled(rule, x, ybar)))
    own = np.fmax(own, np.fmin(shown, _vanished(domain, x, truth)))
    bound = np.zeros(domain.size)
    for leaf in domain:
        top = np.abs(np.nan_to_num(truth[leaf.slice])).max(initial=0.0)
        bound[leaf.slice] = GROSS[leaf.precision] * top
    code = np.where(np.isfinite(truth), Code.OK, Code.DOMAIN).astype(np.int8)
    tops = np.concatenate([np.full(a.size, largest(a.precision)) for a in domain])
    code[too_large(got, truth, own, tops)] = Code.DOMAIN
    if reply.value is None:  # it gave no number now, and did before
        code[:] = Code.DOMAIN
    expected = Estimate(
        value=truth,
        bar=own / 4,
        bound=bound,
        noise=np.zeros_like(truth),
        code=code,
        method=f"the same rule in {exact.primal.domain.leaves[0].precision}",
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.abs(got - truth) / np.where(own > 0, own, np.inf)
    worst = float(np.nanmax(ratio, initial=0.0))
    probe = Probe(x, ybar, got, expected, 2.0 * own)
    if probe.wrong.any():
        probe = replace(probe, own=_beside_kinks(exact, domain, probe, rng))
    # A gradient that cancels as its forward does is no other computation.
    if probe.wrong.any() and cancels(rule.primal, x):
        moved = by_chance(rule, x, ybar, got)
        if moved is not None:
            probe = replace(probe, own=np.fmax(probe.own, moved))
    return probe, worst


def _beside_kinks(
    exact: Rule, domain: Space, p: Probe, rng: np.random.Generator
) -> Vector:
    """What ``p`` may be off by, its rounding deciding on which side of a kink x lies."""
    step = within_rounding(domain, p.point)
    low, high = p.expected.value.copy(), p.expected.value.copy()
    for _ in range(SHAKES):
        side = step * rng.choice([-2.0, -1.0, 1.0, 2.0], domain.size)
        near = _value(exact.vjp(p.point + side, p.cotangent), domain.size)
        low, high = np.fmin(low, near), np.fmax(high, near)
    gap = np.abs(p.got - p.expected.value)
    room = p.own + p.expected.bound
    with np.errstate(invalid="ignore"):
        between = (p.got >= low - room) & (p.got <= high + room)
        bent = high - low > 0.5 * gap
    return np.where(p.wrong & between & bent, 1.001 * gap, p.own)


def _vanished(domain: Space, x: Vector, truth: Vector) -> Vector:
    """What may be left of a gradient that is 0 for a whole leaf, beside the others.

    Only rounding is left of it then, of terms whose size nobody knows: it is held to a
    share of the largest gradient · input of all leaves.
    """
    usual, size = leaf_scale(domain, x), leaf_scale(domain, truth)
    top = float((usual * size).max(initial=0.0))
    share = np.concatenate([np.full(a.size, GROSS[a.precision]) for a in domain])
    none = usual * size <= 1e-9 * top
    scale = np.where(usual > 0, usual, 1.0)
    return np.where(none, share * top / scale, 0.0)


def _cancelled(rule: Rule, x: Vector, ybar: Vector) -> Vector:
    """Roundings of terms as large as f/x, of which a gradient of 0 may be the sum."""
    value = rule.primal.value(x).value
    if value is None:
        return np.zeros(len(x))
    size = float(np.linalg.norm(np.nan_to_num(ybar * value, posinf=0.0, neginf=0.0)))
    typical = leaf_scale(rule.primal.domain, x)
    scale = np.fmax(np.abs(x), 1e-3 * np.where(typical > 0, typical, 1.0))
    unit = max(rule.primal.domain.unit, rule.primal.codomain.unit)
    return np.asarray(2.0 * SAFETY * unit * size / scale)


def other_dtype(
    rule: Rule, name: str, ybar: Vector, rng: np.random.Generator
) -> Elsewhere | None:
    """A rule proved in its own dtype, asked once more in ``name`` (a narrower one).

    None where it does not run there (or never ends), or where the forward itself gives
    something else, so that nothing could be blamed on the backward.
    """
    try:
        with patience(allowance(lambda: rule.vjp(rule.primal.point, ybar))):
            return _in_dtype(rule, name, ybar, rng)
    except TooLong:
        return None


def _in_dtype(
    rule: Rule, name: str, ybar: Vector, rng: np.random.Generator
) -> Elsewhere | None:
    narrow = rule.in_precision(name)
    if narrow is None or not (rule.custom or narrow.custom):
        return None  # a framework's own operators are not on trial
    domain, codomain = narrow.primal.domain, narrow.primal.codomain
    x, y = domain.snap(rule.primal.point), codomain.snap(ybar)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    a, b = narrow.primal.value(x).value, rule.primal.value(x).value
    if a is None or b is None or not _alike(codomain, a, b):
        return None
    reply = narrow.vjp(x, y)
    if reply.failure is not None:
        return Elsewhere(name, "dtype", Verdict.UNDECIDED, failure=reply.failure)
    probe, _ = precision(narrow, rule, x, y, rng)
    verdict = Verdict.FAIL if probe.wrong.any() else Verdict.PASS
    evidence = Evidence(
        rule.source.name, domain, codomain, x, a, source=rule.source, probes=(probe,)
    )
    return Elsewhere(name, "dtype", verdict, evidence)


def _alike(codomain: Space, a: Vector, b: Vector) -> bool:
    """Whether two values agree well enough for their derivatives to be comparable."""
    for leaf in codomain:
        p, q = a[leaf.slice], b[leaf.slice]
        top = np.abs(np.nan_to_num(q)).max(initial=0.0)
        if not np.isfinite(p).all() or (np.abs(p - q) > ALIKE * top).any():
            return False
    return True


def _value(reply: Reply, size: int) -> Vector:
    return np.full(size, np.nan) if reply.value is None else reply.value


def forward_mode(
    rule: Rule, oracle: Differences, x: Vector, tangents: list[Vector]
) -> Asked | None:
    """The rule's own jvp against measured directions; None when it has no jvp."""
    for u in tangents:
        reply = rule.jvp(x, u)
        if reply is None:
            return None
        if reply.failure is not None:
            return Asked(
                "forward mode (jvp)",
                "mode",
                "wrong-jvp",
                agreed=False,
                failure=reply.failure,
            )
        got = reply.value
        if got is None:
            return None
        slack = _jvp_rounding(rule, x, u, got)
        bad, e = _disagree(oracle, got, u, slack, "quick")
        if bad.any():
            bad, e = _disagree(oracle, got, u, slack, "thorough")
        if bad.any():
            with np.errstate(invalid="ignore"):
                gap = np.nan_to_num(np.abs(got - e.value), nan=np.inf)
            worst = int(np.argmax(np.where(bad, gap, -1.0)))
            return Asked(
                "forward mode (jvp)",
                "mode",
                "wrong-jvp",
                agreed=False,
                worst=worst,
                got=float(got[worst]),
                expected=float(e.value[worst]),
                slack=float(e.bound[worst]),
                count=int(bad.sum()),
                answer=got,
                truth=e.value,
            )
    return Asked("forward mode (jvp)", "mode", "wrong-jvp", agreed=True)


def _jvp_rounding(rule: Rule, x: Vector, u: Vector, got: Vector) -> Vector:
    """Rounding that the rule's own jvp may carry, by shaking x and u by one ulp."""
    domain, codomain = rule.primal.domain, rule.primal.codomain
    rng = np.random.default_rng(0)
    spread = np.zeros(codomain.size)
    for _ in range(SHAKES):
        reply = rule.jvp(shake(domain, x, rng), shake(domain, u, rng))
        if reply is not None and reply.value is not None:
            spread = np.fmax(spread, np.nan_to_num(np.abs(reply.value - got)))
    coarse = max(domain.unit, codomain.unit)
    return SAFETY * (spread + coarse * leaf_scale(codomain, got))


def _disagree(
    oracle: Differences, got: Vector, u: Vector, slack: Vector, plan: str
) -> tuple[np.ndarray, Estimate]:
    e = oracle.direction(u, plan)
    with np.errstate(invalid="ignore"):
        bad: np.ndarray = ~(np.abs(got - e.value) <= e.bound + slack)
    return bad & (e.code == Code.OK), e
