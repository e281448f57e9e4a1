"""The short way to a PASS for what is large; whatever is odd is left to the long way."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from gradproof.checks import bulk as bulk_
from gradproof.checks.accusing import accused
from gradproof.checks.bulk import Question
from gradproof.checks.gradient import Compared
from gradproof.checks.rounding import SAFETY, SAME
from gradproof.diagnosis import diagnose
from gradproof.oracles import Differences
from gradproof.proof.comparing import WHOLE_ENTRIES, truth_rule
from gradproof.proof.concluding import conclude, not_the_users
from gradproof.proof.naming import diagnosed
from gradproof.proof.others import others
from gradproof.proof.run import Options, Run
from gradproof.rule import Rule
from gradproof.verdict import Evidence, Probe, Record, Severity, Verdict

GRADIENT, CARDS = "the gradient", "what may be wrong"
MOVED = "compared at other values too: at the inputs given some error could not show"


def passing(rule: Rule, options: Options) -> Record | None:
    """The record of a rule of which everything agrees; None where it is not large.

    None too where anything is odd, or less was seen than ``resolve=`` asks for.
    """
    started = time.perf_counter()
    n, m = rule.primal.domain.size, rule.primal.codomain.size
    on_arrays = rule.bulk() if n * m > WHOLE_ENTRIES else None
    if on_arrays is None or not rule.differentiable or options.orders > 1:
        return None
    options.reached(GRADIENT, 0.05)
    rng = np.random.default_rng([options.seed, 0x9E3779B9])
    share = (0.6 if options.ways else 0.95) - 0.05
    question = Question(
        on_arrays, rng, lambda done: options.reached(GRADIENT, 0.05 + share * done)
    )
    if not bulk_.agreed(question):
        return _failing(rule, options, question, started)
    if not question.form.graph:
        return None
    question.let_go()
    notes = (*rule.notes, *not_the_users(rule))
    if bulk_.vague(on_arrays):
        moved = on_arrays.at(bulk_.elsewhere(on_arrays, rng))
        there = Question(moved, rng)
        if not bulk_.agreed(there):
            return None
        question.limits = there.limits
        del moved, there
        notes = (*notes, MOVED)
    found = _compared(rule, question)
    evidence = replace(_evidence(rule), form=question.form, effects=question.effects)
    if options.ways:
        more = others(
            rule, options, question, found, lambda: _run(rule, options, question),
        )  # fmt: skip
        if more.undecided:
            return None
        notes = (*notes, *more.notes)
        found = replace(found, limits=(*found.limits, *more.limits))
        evidence = replace(
            evidence,
            asked=more.asked,
            elsewhere=more.elsewhere,
            overflow=more.overflow,
        )
    findings = diagnose(evidence).findings
    if any(f.severity is Severity.ERROR for f in findings):
        return None
    record = conclude(
        rule, options, evidence, found, findings, started,
        left_out=_left_out(question), notes=notes,
    )  # fmt: skip
    return record if record.verdict is Verdict.PASS else None


def _failing(
    rule: Rule, options: Options, question: Question, started: float
) -> Record | None:
    """The record of a rule of which entries are wrong beyond doubt.

    None where that is not so, or where the error may be that of a part inside.
    """
    seen = question.seen
    if seen is None or seen.outs is None or seen.form is None or options.tolerate:
        return None
    wrong = None if rule.parts() else accused(question, rule.primal.point)
    if wrong is None or _rounded(rule, wrong.probe):
        return None
    probe = wrong.probe
    evidence = replace(
        _evidence(rule),
        value=question.rule.vector(seen.outs),
        form=seen.form,
        effects=seen.effects,
        probes=(probe,),
        located=wrong.located,
    )
    found = Compared(
        point=probe.point, probes=(probe,), vjps=question.vjps, whole=False,
        evaluations=question.evaluations, method=question.method,
        counts=(wrong.pairs, 0),
    )  # fmt: skip
    options.reached(CARDS, 0.9)
    run = Run(
        rule, options, question.rng, probe.point, evidence.value, probe.cotangent,
        probe.cotangent, probe.got, probe.own, seen.form,
    )  # fmt: skip
    wide = rule.primal.lifted() if question.source is not question.rule else None
    if wide is not None:
        oracle = Differences(wide, probe.point)
        oracle.lifted = True
        run.oracles.append((rule.primal, probe.point, oracle))
    evidence, findings = diagnosed(run, evidence, None)
    record = conclude(
        rule, options, evidence, found, findings, started,
        notes=(*rule.notes, *not_the_users(rule)),
    )  # fmt: skip
    return record if record.verdict is Verdict.FAIL else None


def _rounded(rule: Rule, probe: Probe) -> bool:
    """Whether the same rule in float64 is right: then its own rounding is in question."""
    wide = truth_rule(rule)
    if wide is None:
        return False
    exact = wide.vjp(probe.point, probe.cotangent).value
    if exact is None:
        return False
    value = probe.expected.value[probe.wrong]
    room = probe.expected.bound[probe.wrong] + SAME["float64"] * np.abs(value)
    return bool((np.abs(exact[probe.wrong] - value) <= room).all())


def _evidence(rule: Rule) -> Evidence:
    """What is known beforehand; the values of very many outputs are not kept."""
    domain, codomain = rule.primal.domain, rule.primal.codomain
    return Evidence(
        name=rule.source.name,
        domain=domain,
        codomain=codomain,
        point=rule.primal.point,
        value=np.zeros(0),
        scalars=rule.scalars,
        extents=tuple(sorted({n for leaf in domain for n in leaf.shape})),
        source=rule.source,
    )


def _compared(rule: Rule, seen: Question) -> Compared:
    """What was compared; of the arrays nothing is kept."""
    return Compared(
        point=rule.primal.point,
        vjps=seen.vjps,
        evaluations=seen.evaluations,
        method=seen.method,
        whole=False,
        limits=seen.limits,
        counts=(seen.worth.pairs, seen.worth.entries),
    )


def _left_out(seen: Question) -> tuple[str, ...]:
    left = seen.worth.left_out
    total = left + seen.worth.entries
    return (f"{left} of {total} entries (kink)",) if left else ()


def _run(rule: Rule, options: Options, seen: Question) -> Run:
    """What the ways of asking need."""
    domain = rule.primal.domain
    value, ybar, got, spread = (
        seen.rule.vector(a) for a in (seen.start, seen.ybar, seen.xbar, seen.spread)
    )
    usual = np.empty(domain.size)
    for leaf in domain:
        usual[leaf.slice] = np.sqrt(np.mean(spread[leaf.slice] ** 2))
    return Run(
        rule, options, seen.rng, rule.primal.point, value, ybar, ybar,
        got, SAFETY * (np.maximum(spread, usual) + domain.units() * np.abs(got)),
        seen.form,
    )  # fmt: skip
