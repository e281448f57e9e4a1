"""Evidence to findings: the cards, and answers to what they request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.checks import (
    constrained,
    gradient,
)
from gradproof.checks.rounding import own_rounding
from gradproof.diagnosis import diagnose
from gradproof.diagnosis import requests as requests_
from gradproof.diagnosis.look import EXACT
from gradproof.oracles import Differences, chart, settled
from gradproof.proof.run import Run, seconds_of
from gradproof.rule import Primal, Rule
from gradproof.space import Vector
from gradproof.verdict import (
    Block,
    Code,
    Estimate,
    Evidence,
    Finding,
    Probe,
)

ROUNDS = 3  # of requests from the cards
ANSWER_SECONDS = 2.0  # within which requests are answered, as planned beforehand
# Values of the function that a column takes.
QUICK_VALUES, THOROUGH_VALUES = 8, 50
VJPS = 6  # values that three vjps take, of which a row of the rule's own answer is made
OVERHEAD_SECONDS = 1e-4  # beside each value
ENTRY_SECONDS = 6e-7  # that a value costs for each output, to be differenced
MANY_OUTPUTS = 1 << 14  # from which on a choice of oracle is not made again
ANSWER_ENTRIES = 1 << 22  # of columns of the Jacobian that are held for an answer
# A block that a card asks for is measured thoroughly up to this size. What is wrong is
# known by then; it is asked for to be named.
THOROUGH_ENTRIES = 1 << 12


def diagnosed(
    run: Run, evidence: Evidence, truth: Rule | None
) -> tuple[Evidence, tuple[Finding, ...]]:
    """Cards matched, and asked again with the answers to what they requested."""
    rule = truth or run.rule
    if truth is not None and evidence.wrong:
        exact = truth.primal.value(run.x).value
        if exact is not None:
            evidence = replace(evidence, answers=(*evidence.answers, (EXACT, exact)))
    out = diagnose(evidence)
    left: Left | None = None
    refused: set[str] = set()
    for _ in range(ROUNDS):
        new = [r for r in out.requests if r.key not in refused]
        if not new:
            break
        left = left or Left(
            seconds_of(lambda: rule.primal.value(run.x)), rule.primal.codomain.size
        )
        answers = [(r.key, answer(run, rule, evidence, r, left)) for r in new]
        refused.update(key for key, a in answers if a is None)
        answers = [(key, a) for key, a in answers if a is not None]
        if not answers:
            break
        evidence = replace(evidence, answers=(*evidence.answers, *answers))
        out = diagnose(evidence)
    return evidence, out.findings


class Left:
    """What is left of the time for answers.

    It is spent as planned, not by the clock: a busy machine tells the same name.
    """

    def __init__(self, once: float, outputs: int) -> None:
        """``once``: seconds that a value of the function, of so many outputs, takes."""
        self.once = once + OVERHEAD_SECONDS + outputs * ENTRY_SECONDS
        self.seconds = ANSWER_SECONDS

    def plan(self, rows: int, cols: int, *, rough: bool) -> str:
        """How to measure a block within what is left; "" where it would take longer."""
        for name, values in (("thorough", THOROUGH_VALUES), ("quick", QUICK_VALUES)):
            due = (VJPS * rows + values * cols) * self.once
            if due <= self.seconds and not (rough and name == "thorough"):
                self.seconds -= due
                return name
        return ""


def answer(
    run: Run, rule: Rule, evidence: Evidence, request: requests_.Request, left: Left
) -> Block | Probe | None:
    """The answer to one request, or None where it cannot be had in time."""
    x, domain, m = evidence.point, rule.primal.domain, rule.primal.codomain.size
    if isinstance(request, requests_.BlockAt | requests_.At):
        # A card knows nothing of declared sets: what it asks for may lie outside.
        x = domain.snap(settled(domain, x, request.x))
    if isinstance(request, requests_.Block | requests_.BlockAt):
        rough = isinstance(request, requests_.BlockAt) and request.rough
        small = len(request.cols) * m <= THOROUGH_ENTRIES
        rough = rough or not small or len(request.cols) > gradient.CONFIRMED_COLUMNS
        plan = left.plan(len(request.rows), len(request.cols), rough=rough)
        return block_at(run, rule, x, request.rows, request.cols, plan)
    rough = len(request.cols) * m > THOROUGH_ENTRIES
    plan = left.plan(0, len(request.cols), rough=rough)
    return probe_at(run, rule, x, request, plan)


def probe_at(
    run: Run, rule: Rule, x: Vector, request: requests_.At, plan: str
) -> Probe | None:
    """One vjp at ``x``, and what is due in some of its entries."""
    domain, codomain = rule.primal.domain, rule.primal.codomain
    if not plan or codomain.size * len(request.cols) > ANSWER_ENTRIES:
        return None
    got = rule.vjp(x, request.ybar).value
    if got is None:
        return None
    own = own_rounding(rule, x, request.ybar, got, run.rng)
    at, cols = chart(domain, x), request.cols
    nothing = np.zeros((codomain.size, len(cols)))
    if at is None:
        oracle = _oracle(run, rule.primal, x)
        block = gradient.measured(
            oracle, np.arange(codomain.size), cols, nothing, nothing, plan
        )
    else:
        got = at.project(got)
        every = block_at(run, rule, x, np.arange(codomain.size), cols, plan)
        if every is None:
            return None
        block = every
    few = gradient.probe_of(block, x, request.ybar, got[cols], own[cols])
    known = few.expected
    value, bar, bound, noise = (
        _spread(a, cols, domain.size)
        for a in (known.value, known.bar, known.bound, known.noise)
    )
    code = np.full(domain.size, Code.UNMEASURED, np.int8)
    code[cols] = known.code
    expected = Estimate(value, bar, bound, noise, code, method=known.method)
    return replace(few, got=got, own=own, expected=expected)


def _oracle(run: Run, primal: Primal, x: Vector) -> Differences:
    """What is differenced at ``x``; of very many outputs as it was at the first point.

    To prove a lift anew may take far longer than the answer.
    """
    if primal.codomain.size <= MANY_OUTPUTS:
        return run.best(primal, x)
    lifted = any(o.lifted for known, _, o in run.oracles if known is primal)
    wide = primal.lifted() if lifted else None
    return Differences(primal if wide is None else wide, x)


def _spread(values: Vector, cols: np.ndarray, size: int) -> Vector:
    out = np.zeros(size)
    out[cols] = values
    return out


def block_at(
    run: Run, rule: Rule, x: Vector, rows: np.ndarray, cols: np.ndarray, plan: str
) -> Block | None:
    """Part of the Jacobian at ``x``, implied and measured as planned."""
    if not plan or rule.primal.codomain.size * len(cols) > ANSWER_ENTRIES:
        return None
    at = chart(rule.primal.domain, x)
    if at is None:
        return _block_plainly(run, rule, x, rows, cols, plan)
    inner, every = constrained.ChartedRule(rule, at), np.arange(at.space.size)
    block = _block_plainly(run, inner, at.point, rows, every, plan)
    return gradient.some_columns(constrained.back_block(at, block), cols)


def _block_plainly(
    run: Run, rule: Rule, x: Vector, rows: np.ndarray, cols: np.ndarray, plan: str
) -> Block:
    """The same, coordinate by coordinate: those of a chart keep the bounds of its set."""
    oracle = _oracle(run, rule.primal, x)
    implied, own = gradient.implied_rows(rule, x, rows, run.rng)
    return gradient.measured(oracle, rows, cols, implied, own, plan)
