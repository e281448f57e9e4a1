"""Does what the user allowed explain all that is wrong?"""

from __future__ import annotations

from dataclasses import replace

from gradproof.checks.somewhere import right_somewhere
from gradproof.diagnosis import about_cotangent
from gradproof.oracles import chart
from gradproof.proof.run import Run
from gradproof.rule import Rule
from gradproof.verdict import Evidence, Finding, Severity

TANGENTS = 3
MORE = (
    "it is allowed, and does not explain all: x̄ is no derivative for ȳ = 1, for a small "
    "ȳ, nor for a ȳ of length 1"
)


def more_than_allowed(
    run: Run, rule: Rule, evidence: Evidence, findings: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], frozenset[str]]:
    """The findings, and the slugs among them whose allowance does not cover the numbers.

    A rule that is not linear in ȳ differs from the derivative almost everywhere, so its
    numbers are not judged. Where that is allowed they must be right for some ȳ at least.
    """
    allowed = {*run.options.allow, *run.rule.source.allow}
    errors = [f for f in findings if f.severity is Severity.ERROR]
    odd = [f for f in errors if about_cotangent(f.slug) and f.slug in allowed]
    lin = evidence.linearity
    if not odd or lin is None or not lin.broken():
        return findings, frozenset()
    if any(f.slug not in allowed for f in errors):
        return findings, frozenset()
    oracle, at = run.best(rule.primal, run.x), chart(run.domain, run.x)
    tangents = [oracle.scales() * run.domain.draw(run.rng) for _ in range(TANGENTS)]
    if at is not None:
        tangents = [at.project(u) for u in tangents]
    if right_somewhere(
        rule, oracle, run.x, run.ybar, tangents, run.rng, tolerate=run.options.tolerate
    ):
        return findings, frozenset()
    said = tuple(
        replace(f, evidence=(*f.evidence, MORE)) if f in odd else f for f in findings
    )
    return said, frozenset(f.slug for f in odd)
