"""Evidence to findings: the cards, and answers to what they request."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from gradproof.checks import (
    constrained,
    gradient,
)
from gradproof.checks.rounding import own_rounding
from gradproof.diagnosis import diagnose
from gradproof.diagnosis import requests as requests_
from gradproof.oracles import chart, settled
from gradproof.proof.comparing import WHOLE_ENTRIES
from gradproof.proof.run import Run
from gradproof.rule import Rule
from gradproof.space import Vector
from gradproof.verdict import (
    Block,
    Evidence,
    Finding,
    Probe,
)

ROUNDS = 3  # of requests from the cards


ANSWER_SECONDS = 6.0  # after which no further request is answered


# A block that a card asks for is measured thoroughly up to this size. What is wrong is
# known by then; it is asked for to be named.
THOROUGH_ENTRIES = 1 << 12


def diagnosed(
    run: Run, evidence: Evidence, truth: Rule | None
) -> tuple[Evidence, tuple[Finding, ...]]:
    """Cards matched, and asked again with the answers to what they requested."""
    out = diagnose(evidence)
    end = time.perf_counter() + ANSWER_SECONDS
    for _ in range(ROUNDS):
        new = [r for r in out.requests if evidence.answer(r.key) is None]
        answers = []
        for r in new:
            if time.perf_counter() > end:
                break
            answers.append((r.key, answer(run, truth or run.rule, evidence, r)))
        answers = [(key, a) for key, a in answers if a is not None]
        if not answers:
            break
        evidence = replace(evidence, answers=(*evidence.answers, *answers))
        out = diagnose(evidence)
    return evidence, out.findings


def answer(
    run: Run, rule: Rule, evidence: Evidence, request: requests_.Request
) -> Block | Probe | Vector | None:
    """The answer to one request, or None where it cannot be had."""
    x, domain = evidence.point, rule.primal.domain
    if isinstance(request, requests_.Block):
        return block_at(run, rule, x, request.rows, request.cols)
    if isinstance(request, requests_.BlockAt | requests_.At):
        # A card knows nothing of declared sets: what it asks for may lie outside.
        x = domain.snap(settled(domain, x, request.x))
    if isinstance(request, requests_.BlockAt):
        return block_at(run, rule, x, request.rows, request.cols)
    if isinstance(request, requests_.At):
        n, m = domain.size, rule.primal.codomain.size
        got = rule.vjp(x, request.ybar).value
        if got is None or n * m > WHOLE_ENTRIES:
            return None
        block = block_at(run, rule, x, np.arange(m), np.arange(n))
        own = own_rounding(rule, x, request.ybar, got, run.rng)
        at = chart(domain, x)
        got = got if at is None else at.project(got)
        return gradient.probe_of(block, x, request.ybar, got, own)
    if isinstance(request, requests_.Frozen):
        for way in rule.ways():
            for part in (way, *way.parts):
                if part.name == f"only {request.leaves[0]} requires grad":
                    return rule.vjp(x, run.ybar, part).value
    return None


def block_at(
    run: Run, rule: Rule, x: Vector, rows: np.ndarray, cols: np.ndarray
) -> Block:
    """Part of the Jacobian at ``x``, implied and measured."""
    at = chart(rule.primal.domain, x)
    if at is None:
        return _block_plainly(run, rule, x, rows, cols)
    inner, every = constrained.ChartedRule(rule, at), np.arange(at.space.size)
    block = _block_plainly(run, inner, at.point, rows, every)
    return gradient.some_columns(constrained.back_block(at, block), cols)


def _block_plainly(
    run: Run, rule: Rule, x: Vector, rows: np.ndarray, cols: np.ndarray
) -> Block:
    """The same, coordinate by coordinate: those of a chart keep the bounds of its set."""
    oracle = run.best(rule.primal, x)
    implied, own = gradient.implied_rows(rule, x, rows, run.rng)
    small = len(cols) * rule.primal.codomain.size <= THOROUGH_ENTRIES
    plan = "thorough" if small and len(cols) <= gradient.CONFIRMED_COLUMNS else "quick"
    return gradient.measured(oracle, rows, cols, implied, own, plan)
