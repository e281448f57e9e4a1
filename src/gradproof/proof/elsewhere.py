"""The same rule asked in other ways and other settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gradproof.checks import (
    overflow,
    settings,
    ways,
)
from gradproof.checks.gradient import Compared
from gradproof.oracles import chart
from gradproof.proof.comparing import compare_at
from gradproof.proof.run import Run, must
from gradproof.rule import RAN_EAGERLY, NotCompiled, Rule, Together
from gradproof.space import Vector
from gradproof.verdict import (
    Asked,
    Elsewhere,
    Evidence,
    Undecided,
    Verdict,
)

NOT_COMPILED = NotCompiled.__name__
EAGERLY = "the compiler compiled nothing of {name}: it runs eagerly there too"
DECIDE = (
    'leave compile= out, name a backend that runs here (compile="aot_eager" needs no '
    "C++ compiler), or check where the compiler works"
)

NO_SECOND_ORDER = "second order: there is none"


def as_given(
    run: Run, truth: Rule | None, found: Compared, yard: Vector | None
) -> tuple[Elsewhere, ...]:
    """A rule proved in float64, asked in the dtype that it was given in."""
    if truth is None or found.wrong:
        return ()
    probe, ratio = settings.precision(run.rule, truth, run.x, run.ybar, run.rng)
    note = f"{ratio:.1f}"
    if yard is not None:  # a reference in the same dtype is what it is held against
        probe, note = replace(probe, own=np.maximum(probe.own, yard)), ""
    name = run.domain.leaves[0].precision
    verdict = Verdict.FAIL if probe.wrong.any() else Verdict.PASS
    evidence = Evidence(
        run.rule.source.name,
        run.domain,
        run.codomain,
        run.x,
        run.value,
        source=run.rule.source,
        probes=(probe,),
    )
    return (Elsewhere(name, "dtype", verdict, evidence, note=note),)


def other_settings(
    run: Run, truth: Rule | None, found: Compared
) -> tuple[Elsewhere, ...]:
    """Another dtype of the same input, and second order where it was asked for."""
    if found.wrong:
        return ()
    out: list[Elsewhere] = []
    rule = run.rule
    if all(leaf.precision == "float64" for leaf in run.domain):
        other = settings.other_dtype(rule, "float32", run.ybar, run.rng)
        if other is not None:
            out.append(other)
    if run.options.orders >= 2:
        out += second_order(run, truth or rule)
    return tuple(out)


def second_order(run: Run, rule: Rule) -> list[Elsewhere]:
    """The vjp as a rule of its own, compared with its differences."""
    derived = rule.derived("second order")
    if derived is None:
        run.rule.second_order_note = rule.second_order_note or NO_SECOND_ORDER
        return []
    reply = derived.vjp(derived.primal.point, derived.primal.codomain.draw(run.rng))
    if reply.failure is not None:
        return [
            Elsewhere("second order", "order", Verdict.UNDECIDED, failure=reply.failure)
        ]
    inner = Run(
        derived,
        run.options,
        run.rng,
        derived.primal.point,
        must(derived.primal.value(derived.primal.point), derived.primal.codomain.size),
        derived.primal.codomain.draw(run.rng),
        derived.primal.codomain.draw(run.rng),
        np.zeros(0),
        np.zeros(0),
    )
    found = compare_at(inner, derived, derived.primal.point)
    evidence = Evidence(
        run.rule.source.name,
        derived.primal.domain,
        derived.primal.codomain,
        derived.primal.point,
        inner.value,
        source=run.rule.source,
        block=found.block,
        probes=found.probes,
        directions=found.directions,
    )
    verdict = Verdict.FAIL if found.wrong else Verdict.PASS
    return [Elsewhere("second order", "order", verdict, evidence)]


def asked_ways(
    run: Run, found: Compared, settled: Together | None = None
) -> tuple[Asked, ...]:
    """Every way, and forward mode; in one go as far as that settles it."""
    if not run.options.ways:
        return ()
    if settled is None:
        views = (
            [space.view(v, leaf) for leaf in space]
            for space, v in (
                (run.domain, run.x),
                (run.codomain, run.ybar),
                (run.domain, run.got),
            )
        )
        settled = ways.together(run.rule, *views)
    out = list(
        ways.asked(run.rule, run.x, run.ybar, run.own, settled=settled, got=run.got)
    )
    if not run.rule.has_jvp:
        return tuple(out)
    oracle = run.best(run.rule.primal, run.x)
    scale = oracle.scales()
    tangents = [scale * run.domain.draw(run.rng) for _ in range(2)]
    at = chart(run.domain, run.x)
    if at is not None:
        tangents = [at.project(u) for u in tangents]
    mode = settings.forward_mode(run.rule, oracle, run.x, tangents)
    if mode is not None:
        out.append(mode)
    return tuple(out)


@dataclass(frozen=True)
class Compiled:
    """What asking through the framework's compiler told."""

    asked: tuple[Asked, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    notes: tuple[str, ...] = ()


def compiled(run: Run) -> Compiled:
    """The question asked through a compiler, where that was asked for."""
    if not run.options.compile:
        return Compiled()
    every = run.rule.compiled(run.options.compile)
    asked = ways.asked(run.rule, run.x, run.ybar, run.own, every)
    name = run.rule.source.name
    lost = [a.failure for a in asked if a.failure and a.failure.kind == NOT_COMPILED]
    eagerly = any(e.slug == RAN_EAGERLY for a in asked for e in a.effects)
    return Compiled(
        tuple(a for a in asked if a.failure is None or a.failure not in lost),
        tuple(Undecided("not-compiled", name, f.message, DECIDE) for f in lost),
        (EAGERLY.format(name=name),) * eagerly,
    )


def overflowing(rule: Rule) -> tuple[float, float, str] | None:
    """(x, value, what it gave) where the forward overflows and the function does not."""
    seen = overflow.overflow(rule)
    if seen is None:
        return None
    return seen.x, seen.value, f"{seen.path}: {seen.gave}"
