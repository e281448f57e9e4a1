"""One rule in, one record out; the only file that knows the order of the stages."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from gradproof.checks import (
    constrained,
    curves,
    history,
    infinite,
    linearity,
    parts,
    plain,
    ways,
    worth,
)
from gradproof.checks.gradient import Compared
from gradproof.checks.rounding import own_rounding
from gradproof.diagnosis import diagnose
from gradproof.errors import GradproofError, UsageError
from gradproof.oracles import chart
from gradproof.proof import raising
from gradproof.proof.comparing import (
    LARGE,
    Refined,
    another_point,
    at_settings,
    compare,
    in_last_digits,
    kinked,
    moved_point,
    never_changes,
    stopping_early,
    truth_rule,
    vague,
)
from gradproof.proof.concluding import (
    DIGITS,
    conclude,
    not_the_users,
    stateful,
    symmetric_only,
)
from gradproof.proof.covering import more_than_allowed
from gradproof.proof.elsewhere import (
    as_given,
    asked_ways,
    compiled,
    other_settings,
    overflowing,
)
from gradproof.proof.large import MOVED, passing
from gradproof.proof.memory import LONG_WAY, SHORT_WAY, refuse_too_large
from gradproof.proof.naming import diagnosed
from gradproof.proof.run import Options, Run, must
from gradproof.rule import Rule
from gradproof.verdict import (
    Curve,
    Elsewhere,
    Evidence,
    Finding,
    Form,
    Record,
    Severity,
    Undecided,
    Verdict,
)

# The stages, as whoever waits is told.
FORM, HISTORY, GRADIENT = "form", "history and linearity", "the gradient"
OTHERS, CARDS = "other ways of asking", "what may be wrong"

PARTS = 8  # custom gradients inside a callable that are proved alone, at most
WAYS_A_CALL = 2  # at most
PATIENCE = 4  # times the repeats, where something is odd


@np.errstate(all="ignore")  # ours to look at, whatever the user's own setting
def prove(rule: Rule, options: Options, refined: tuple[Refined, ...] = ()) -> Record:
    """Ask everything, cheapest first, and conclude."""
    started = time.perf_counter()
    options.reached(FORM, 0.0)
    if not refined:
        refuse_too_large(rule, SHORT_WAY)
        record = passing(rule, options)
        if record is not None:
            return record
    refuse_too_large(rule, LONG_WAY)
    rng = np.random.default_rng([options.seed, 0x9E3779B9])
    primal = rule.primal
    x = primal.domain.snap(primal.point)
    value = must(primal.value(x), primal.codomain.size)
    ybar, other = primal.codomain.draw(rng), primal.codomain.draw(rng)
    base = Evidence(
        name=rule.source.name,
        domain=primal.domain,
        codomain=primal.codomain,
        point=x,
        value=value,
        scalars=rule.scalars,
        extents=tuple(sorted({n for leaf in primal.domain for n in leaf.shape})),
        source=rule.source,
    )
    reply = rule.inspect(x, ybar)
    base = replace(
        base,
        form=reply.form or Form(),
        effects=reply.effects,
        failure=reply.failure,
    )
    if reply.value is None:
        lost = raising.raising(primal, x)
        base = raising.without(base) if lost else base
        return conclude(rule, options, base, None, (), started, lost)
    own = own_rounding(rule, x, ybar, reply.value, rng)
    run = Run(rule, options, rng, x, value, ybar, other, reply.value, own, base.form, 5)
    return proved(run, base, started, refined)


@dataclass(frozen=True, eq=False)
class Standing:
    """The comparison, weighed against what could excuse a mismatch."""

    rule: Rule  # the one that was compared: in float64 where that is the same function
    truth: Rule | None  # that one, where it is not the rule itself
    found: Compared
    shown: Compared  # ``found``, or the comparison at other values where it tells more
    elsewhere: tuple[Elsewhere, ...]
    undecided: tuple[Undecided, ...]
    notes: tuple[str, ...]
    inexact: bool


def proved(
    run: Run, base: Evidence, started: float, refined: tuple[Refined, ...]
) -> Record:
    """What follows once the rule has given a vjp."""
    rule, options = run.rule, run.options
    options.reached(HISTORY, 0.05)
    base, wander = as_a_function(run, base)
    options.reached(GRADIENT, 0.15)
    s = standing(run, base, refined)
    built = compiled(run)
    evidence = replace(
        base,
        point=s.shown.point,
        block=s.shown.block,
        probes=s.shown.probes,
        directions=s.shown.directions,
        located=s.shown.located,
        asked=asked_ways(run, s.found) + built.asked,
        elsewhere=s.elsewhere + other_settings(run, s.truth, s.found),
        overflow=overflowing(rule),
        curves=curves_of(s.rule, s.shown),
    )
    options.reached(CARDS, 0.9)
    evidence = repeated(run, evidence)
    open_, left_out = worth.unanswered(s.found, run.domain, run.codomain)
    undecided = (*built.undecided, *s.undecided, *open_)
    undecided += infinite.untested(s.found, run.x, run.value)
    if base.stateful:
        undecided = (stateful(base.stateful),)  # the others are its echoes
    if wander == np.inf or raising.suspected(evidence):
        lost = raising.raising(rule.primal, run.x)
        evidence = raising.without(evidence) if lost else evidence
        undecided = lost or undecided
    at = chart(run.domain, run.x)
    notes = (*rule.notes, *not_the_users(rule), *s.notes, *built.notes)
    if s.shown is not s.found:
        notes = (*notes, MOVED)
    evidence = last_digits(run, s.found, evidence)
    evidence, findings = diagnosed(run, evidence, s.truth)
    findings = blamed(run, evidence, findings)
    findings, beyond = more_than_allowed(run, s.rule, evidence, findings)
    return conclude(
        rule, options, evidence, s.found, findings, started, undecided, left_out,
        (*notes, *constrained.notes(at)),
        symmetric=symmetric_only(evidence), still=never_changes(run, s.found),
        along=constrained.compared(at), inexact=s.inexact, beyond=beyond,
        kinked=kinked(run, s.rule, s.found),
    )  # fmt: skip


def as_a_function(run: Run, base: Evidence) -> tuple[Evidence, float]:
    """Whether f has a memory and the vjp is linear; and by how much f(x) changed."""
    wander, wandered = history.history(run.rule.primal, run.value, another_point(run))
    changed = f"{wandered} outputs changed by up to {wander:.1e} (relative)"
    linear = linearity.linearity(run.rule, run.x, run.ybar, run.got, run.own, run.other)
    stateful_ = changed if wandered else ""
    return replace(base, stateful=stateful_, linearity=linear), wander


def standing(run: Run, base: Evidence, refined: tuple[Refined, ...]) -> Standing:
    """The rule against its oracle, and against whatever else can be heard of it."""
    truth = truth_rule(run.rule)
    rule = truth or run.rule
    found = compare(run, rule)
    if not (run.rule.differentiable and base.form.graph) and not found.wrong:
        raise UsageError(
            f"the result of {run.rule.source.name} depends on no input, by a graph or by "
            "its values, so there is no gradient to check"
        )
    run.options.reached(OTHERS, 0.6)
    weighed = at_settings(run, found, refined)
    found, early, stopped = weighed.found, weighed.elsewhere, weighed.undecided
    if not refined:
        found, early, stopped = stopping_early(run, rule, found)
    heard = plain.hear(run.rule, truth, found, run.x, run.ybar, run.rng)
    found = heard.found
    native = as_given(run, truth, found, heard.yard) + heard.elsewhere
    moved = None
    if not found.wrong and not weighed.inexact and vague(run, found):
        moved = moved_point(run, rule)
    return Standing(
        rule, truth, found, moved if moved is not None and moved.wrong else found,
        early + native, (*stopped, *heard.undecided),
        (*weighed.notes, *heard.notes, *found.short), weighed.inexact,
    )  # fmt: skip


def curves_of(rule: Rule, shown: Compared) -> tuple[Curve, ...]:
    """None of a large problem in which nothing is wrong."""
    n, m = rule.primal.domain.size, rule.primal.codomain.size
    if max(n, m) > LARGE and not shown.wrong:
        return ()
    return curves.curves(rule.primal, shown)


def repeated(run: Run, evidence: Evidence) -> Evidence:
    """What repeats told; on suspicion there are more, for a race is seldom lost.

    A call that was held against another answer would have shown a race as well, so that
    these count as repeats.
    """
    lin = evidence.linearity
    odd = evidence.wrong or (lin is not None and bool(lin.broken()))
    odd |= any(
        not a.agreed and a.failure is None and a.severity is Severity.ERROR
        for a in evidence.asked
    )
    question = (run.rule, run.x, run.ybar, run.got, run.own)
    rows = 0 if evidence.block is None else len(evidence.block.rows)
    known = rows + linearity.CALLS + len(evidence.asked) // WAYS_A_CALL
    seen = ways.repeats(*question, known=known)
    if odd and not seen.odd:
        seen = ways.repeats(*question, patience=PATIENCE)
    probe = ways.odd_one(*question, seen)
    return replace(
        evidence,
        nondeterministic=seen.units,
        odd_calls=(seen.odd, seen.calls),
        probes=(*evidence.probes, *(() if probe is None else (probe,))),
    )


def last_digits(run: Run, found: Compared, evidence: Evidence) -> Evidence:
    """``evidence``, a mismatch in the last digits alone being none: the rule is inexact.

    Unless it is explained by a lower precision inside, which has a name of its own.
    """
    if evidence.block is not found.block or found.directions:
        return evidence
    wider = in_last_digits(run, found)
    if wider is None or wider.block is None or named(evidence, "hidden-low-precision"):
        return evidence
    early = Elsewhere("in the last digits", "refine", Verdict.FAIL, note=DIGITS)
    return replace(
        evidence,
        block=wider.block,
        probes=wider.probes,
        elsewhere=(*evidence.elsewhere, early),
    )


def named(evidence: Evidence, slug: str) -> bool:
    """Whether the cards call it that."""
    return any(f.slug == slug for f in diagnose(evidence).findings)


def blamed(
    run: Run, evidence: Evidence, findings: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """An error of the whole, told as that of the custom gradient inside which errs.

    Each is proved alone, at what it was given there: plainly first where the whole is
    wrong when asked plainly, then in every way, for it may be given odd cotangents.
    Where all that err are declared, so is the error that they make of the whole.
    """
    if not findings or findings[0].severity is not Severity.ERROR:
        return findings
    inside = run.rule.parts()
    if not inside:
        return findings
    linear = evidence.linearity is None or not evidence.linearity.broken()
    plain = evidence.wrong or not linear
    records: list[Record] = []
    for every_way in sorted({not plain and run.options.ways, run.options.ways}):
        records = [
            record
            for part in inside[:PARTS]
            if (record := alone(part, replace(run.options, ways=every_way)))
        ]
        if parts.guilty(records):
            break
    wrong = parts.guilty(records)
    if not wrong and plain and len(records) == len(inside):
        wrong = parts.declared(records)
    return parts.blame(findings, run.rule.source.name, records, wrong)


def alone(part: Rule, options: Options) -> Record | None:
    """The proof of a part; None where nothing can be seen of it alone."""
    try:
        return prove(part, replace(options, tell=None))
    except GradproofError:
        return None
