"""Findings and gaps to a verdict, its limits, and what was not asked."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from gradproof.checks import stopping, worth
from gradproof.checks.gradient import Compared
from gradproof.diagnosis import diagnose
from gradproof.proof.run import Options
from gradproof.rule import Rule
from gradproof.space import unit
from gradproof.verdict import (
    Evidence,
    Finding,
    Limit,
    Record,
    Severity,
    Undecided,
    Verdict,
)

COARSE = (
    "an error below {limit:.1g} would not have been seen, and {wanted:.1g} was to be"
)
BENT = ": along a direction the one-sided slopes of some outputs differ"
OFF_KINKS = (
    "check at a point off the kinks (without ties), or raise budget= so that every entry "
    "is compared by itself"
)

# Without resolve=, a PASS must at least have been able to see an error of this size.
UNSEEN = 1.0  # a limit of the dtype given above which nothing was seen there
RESOLVE = {"float64": 1e-2, "float32": 5e-2, "float16": 0.25, "bfloat16": 0.5}


def not_the_users(rule: Rule) -> tuple[str, ...]:
    """That what was checked is not the user's, where it is not."""
    if rule.custom or rule.source.kind not in ("function", "module"):
        return ()
    return (
        f"{rule.source.name} applies no custom gradient; autograd's own was checked",
    )


def stateful(detail: str) -> Undecided:
    """Undecided since the forward has a history."""
    return Undecided(
        "stateful-forward",
        "",
        f"f(x), f(x'), f(x): {detail}; a difference of it means little",
        "pass reset= (called before every forward), or clear the cache in the forward",
    )


def symmetric_only(evidence: Evidence) -> str:
    """The path of a symmetric matrix whose mismatch lies outside the symmetric set."""
    b = evidence.block
    if b is None or not b.whole or not b.wrong.any():
        return ""
    for leaf in evidence.domain:
        shape = leaf.shape
        if (
            leaf.pattern
            or leaf.is_complex
            or len(shape) < 2
            or shape[-1] != shape[-2]
            or shape[-1] < 2
        ):
            continue
        a = evidence.point[leaf.slice].reshape(shape)
        off = a - a * np.eye(shape[-1])
        if not np.array_equal(a, np.swapaxes(a, -1, -2)) or np.unique(off).size < 3:
            continue
        inside = np.zeros(evidence.domain.size, dtype=bool)
        inside[leaf.slice] = True
        if b.wrong[:, ~inside].any():
            continue
        gap = (b.implied - b.value)[:, leaf.slice].reshape(-1, *shape)
        slack = (b.bound + b.own)[:, leaf.slice].reshape(-1, *shape)
        both = np.abs(gap + np.swapaxes(gap, -1, -2))
        if (both <= slack + np.swapaxes(slack, -1, -2)).all():
            return leaf.path
    return ""


def conclude(
    rule: Rule,
    options: Options,
    evidence: Evidence,
    found: Compared | None,
    findings: tuple[Finding, ...],
    started: float,
    undecided: tuple[Undecided, ...] = (),
    left_out: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    *,
    symmetric: str = "",
    still: bool = False,
    along: str = "",
    inexact: bool = False,
    kinked: bool = False,
    beyond: frozenset[str] = frozenset(),
) -> Record:
    """Verdict, limits and what was not asked.

    ``beyond`` are slugs that are allowed and do not explain all that is wrong.
    """
    if found is None:
        findings = diagnose(evidence).findings
    allowed = {*options.allow, *rule.source.allow}
    findings = tuple(
        replace(f, allowed=f.allowed or f.slug in allowed - beyond) for f in findings
    )
    if symmetric:
        undecided = (*undecided, outside(symmetric))
        findings = tuple(f for f in findings if f.severity != Severity.ERROR)
    if still:
        undecided = (*undecided, VACUOUS)
    errors = [f for f in findings if f.severity == Severity.ERROR and not f.allowed]
    limits = limits_of(found, evidence)
    if not undecided and not errors and not (inexact and options.resolve is None):
        undecided = too_coarse(options, evidence, limits, kinked=kinked)
        if not undecided and found is not None and not options.tolerate:
            undecided = worth.blind(found, evidence.domain, evidence.codomain)
    # What leaves the proof undecided is not warned of a second time.
    open_ = {u.reason for u in undecided}
    findings = tuple(
        f for f in findings if f.slug not in open_ or f.severity == Severity.ERROR
    )
    undecided = tuple(u for u in undecided if u.reason not in allowed)
    verdict = Verdict.PASS
    if errors:
        verdict = Verdict.FAIL
    elif undecided:
        verdict = Verdict.UNDECIDED
    return Record(
        name=rule.source.name,
        verdict=verdict,
        findings=findings,
        undecided=undecided,
        limits=limits,
        compared=worth.compared(found, evidence.domain, evidence.codomain) + along
        if found is not None
        else "",
        left_out=left_out,
        not_asked=not_asked(rule, options),
        notes=notes or rule.notes,
        evidence=evidence,
        seed=options.seed,
        evaluations=(found.evaluations, found.vjps) if found is not None else (1, 1),
        seconds=time.perf_counter() - started,
    )


DIGITS = "the mismatch is less than float32 could tell"


VACUOUS = Undecided(
    "vacuous",
    "every output",
    "the output did not change at any of the points tried, so no gradient could show",
    "check at inputs where the output depends on them",
)


def outside(path: str) -> Undecided:
    """Undecided since a symmetric matrix was not declared as one."""
    return Undecided(
        "domain",
        path,
        f"{path} is a symmetric matrix, and the rule agrees on symmetric tangents only",
        f"declare it: arg.symmetric or arg.spd for {path}, or pass a matrix that is not "
        "symmetric",
    )


def limits_of(found: Compared | None, evidence: Evidence) -> tuple[Limit, ...]:
    """Of the formula, and of the dtype that was given where that is another one."""
    if found is None:
        return ()
    out = worth.limits(found)
    if found.block is not None and found.block.whole:
        # What lies in the last digits is told by a warning, not by the verdict.
        least = stopping.LAST_DIGITS
        out = tuple(replace(a, value=float(max(a.value, least))) for a in out)
    for e in evidence.elsewhere:
        if e.kind == "dtype" and e.evidence is not None:
            narrow = worth.probe_limit(e.evidence.probes[0])
            if narrow is not None:
                out = (*out, Limit(f"in {e.setting}", narrow))
    return out


def too_coarse(
    options: Options,
    evidence: Evidence,
    limits: tuple[Limit, ...],
    *,
    kinked: bool,
) -> tuple[Undecided, ...]:
    """Undecided since less was visible than was to be."""
    if not limits:
        return ()
    uniform = next((a.value for a in limits if a.structure == "uniform"), 0.0)
    leaves = [
        a for a in (*evidence.domain, *evidence.codomain) if a.precision in RESOLVE
    ]
    coarse = max(leaves, key=lambda leaf: unit(leaf.precision))
    wanted = options.resolve
    if wanted is None:  # what is tolerated need not have been seen
        wanted = RESOLVE[coarse.precision] + 2 * options.tolerate
    where = "the whole gradient"
    narrow = next((a for a in limits if a.structure.startswith("in ")), None)
    if uniform <= wanted and narrow is not None and not narrow.value <= UNSEEN:
        uniform, where = narrow.value, f"the gradient {narrow.structure}"
    if uniform <= wanted:
        return ()
    detail = COARSE.format(limit=uniform, wanted=wanted)
    if kinked:
        return (Undecided("kink", where, detail + BENT, OFF_KINKS),)
    return (
        Undecided(
            "noise",
            where,
            detail,
            "a wider dtype, a less noisy forward, reference=, or a larger resolve=",
        ),
    )


def not_asked(rule: Rule, options: Options) -> tuple[str, ...]:
    """What a PASS does not speak of."""
    out = []
    if options.orders < 2:
        out.append("second order")
    elif rule.second_order_note:
        out.append(rule.second_order_note)
    if not options.ways:
        out.append("ways")
    if rule.source.kind != "pair" and not options.compile:
        out.append("compile")
    return (*out, "other shapes")
