"""Every plantable mistake × rules that no card was tuned for: is it called by its name?

Plants are numeric transformations of an opaque rule, drawn afresh in each run; the seed
that failed is in the message.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from planted_evidence import Bench, diagnosed
from planted_mistakes import ON_PURPOSE, PLANTS
from planted_rules import cases

from gradproof.diagnosis import diagnose, finding
from gradproof.verdict import Code

# A seed of its own for each precision, so that one run sees both and many points.
SEEDS = {
    p: int(np.random.SeedSequence().entropy % 2**31) for p in ("float64", "float32")
}
NAMED = 0.97
ENOUGH = 16  # rules that one mistake is planted in, drawn afresh


def bench(case, precision, vjp, seed):
    return Bench(case, precision, vjp, np.random.default_rng(seed))


def shows(evidence) -> bool:
    """Whether the plant differs from the right rule beyond what can be seen."""
    return evidence.wrong or bool(evidence.linearity.broken())


@dataclass
class Matrix:
    led: Counter = field(default_factory=Counter)
    asked: Counter = field(default_factory=Counter)
    missed: list = field(default_factory=list)
    by_slug: dict = field(default_factory=lambda: defaultdict(set))
    rules: Counter = field(default_factory=Counter)
    offers: list = field(default_factory=list)
    repairs: list = field(default_factory=list)  # (said to agree, off the truth by)


def off_by(planted, match, look) -> float:
    """How far repaired numbers are from the exact ones, in units of what is excused."""
    worst = 0.0
    for p, repaired in zip(look.panels, match.repaired, strict=True):
        m = planted.codomain.size
        sent = np.eye(m)[p.rows] if p.rows is not None else p.cotangents
        truth = (sent @ planted.jac(p.point))[:, p.cols]
        room = p.bound + 8 * max(1.0, match.amplify) * p.own + 1e-300
        worst = max(worst, float((np.abs(repaired - truth) / room).max(initial=0.0)))
    return worst


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    """Each mistake planted in each rule that it fits, in both precisions."""
    with pytest.MonkeyPatch.context() as patch:
        return planted_everywhere(patch)


def planted_everywhere(patch) -> Matrix:
    out, confirm = Matrix(), finding.confirm
    bench_now: list[Bench] = []

    def noted(match, look):
        said = confirm(match, look)
        out.repairs.append((bool(said), off_by(bench_now[-1], match, look)))
        return said

    patch.setattr(finding, "confirm", noted)
    for precision, seed in SEEDS.items():
        drawn = np.random.default_rng(seed).permutation(np.array(cases(seed), object))
        for case in drawn:
            right = bench(case, precision, None, seed)
            for slug, name, make in PLANTS:
                vjp = make(right) if out.rules[precision, name] < ENOUGH else None
                if vjp is None:
                    continue
                planted = bench(case, precision, vjp, seed + 1)
                evidence = planted.evidence()
                if not shows(evidence):
                    continue
                out.rules[precision, name] += 1
                bench_now[:] = [planted]
                found = diagnosed(planted, evidence).findings
                lead = found[0].slug if found else "nothing"
                out.asked[name] += 1
                out.led[name] += lead == slug
                out.by_slug[slug].add(case.name)
                if lead != slug:
                    out.missed.append((slug, name, case.name, precision, seed, lead))
                out.offers += [f.help for f in found if f.help is not None]
    return out


def test_the_leading_name_is_the_planted_one(matrix):
    share = sum(matrix.led.values()) / sum(matrix.asked.values())
    assert share >= NAMED, f"{share:.4f} named; missed: {matrix.missed[:40]}"


@pytest.mark.parametrize("name", [name for _, name, _ in PLANTS])
def test_each_mistake_is_named_in_most_rules(matrix, name):
    asked, led = matrix.asked[name], matrix.led[name]
    assert asked, f"{name} fits no rule"
    assert led >= 0.75 * asked, [m for m in matrix.missed if m[1] == name]


def test_something_is_always_found(matrix):
    assert not [m for m in matrix.missed if m[-1] == "nothing"]


def test_general_mistakes_were_planted_in_many_rules(matrix):
    general = (
        "dropped-cotangent", "nonlinear-cotangent", "cotangent-read-as-scalar",
        "wrong-sign", "wrong-factor", "shifted-index", "unwritten-region",
        "nan-gradient", "hidden-low-precision",
    )  # fmt: skip
    assert all(len(matrix.by_slug[slug]) >= 15 for slug in general)


def test_an_edit_that_is_offered_was_confirmed(matrix):
    assert matrix.offers
    assert all(h.confirmed for h in matrix.offers if h.new)


def test_a_repair_that_is_offered_is_right_in_every_case(matrix):
    offered = [off for said, off in matrix.repairs if said]
    assert len(offered) > 200
    assert max(offered) <= 1.0
    # None is offered where the numbers do not agree; some were tried and did not.
    refused = [off for said, off in matrix.repairs if not said]
    assert all(off > 0.5 for off in refused)


@pytest.mark.parametrize("precision", SEEDS)
def test_a_right_rule_yields_nothing(precision):
    seed = SEEDS[precision]
    wrong = {
        case.name: [f.slug for f in diagnosed(bench(case, precision, None, s)).findings]
        for s in range(seed, seed + 4)
        for case in cases(s)
    }
    assert not {name: slugs for name, slugs in wrong.items() if slugs}, seed


def test_a_plant_below_what_can_be_seen_yields_nothing():
    seed = SEEDS["float32"]
    for case in cases(seed):
        b = bench(case, "float32", None, seed)
        b.vjp = lambda x, y, b=b: (b.jac(x).T @ y) * (1 + 1e-9)
        assert diagnosed(b).findings == ()


def test_two_mistakes_in_two_inputs_are_both_named():
    seed = SEEDS["float64"]
    for case in cases(seed):
        b = bench(case, "float64", None, seed)
        if case.name in ON_PURPOSE or len(b.domain) < 2:
            continue
        first, last = b.domain.leaves[0], b.domain.leaves[-1]

        def vjp(x, y, b=b, first=first, last=last):
            out = b.jac(x).T @ y
            out[first.slice] *= -1
            out[last.slice] *= 3
            return out

        b.vjp = vjp
        slugs = {f.slug for f in diagnosed(b).findings}
        assert slugs == {"wrong-sign", "wrong-factor"}, (case.name, seed)


TOGETHER = (
    "ignored-output", "unwritten-region", "leaked-region", "wrong-at-value",
    "overwritten-accumulation", "unsummed-broadcast",
)  # fmt: skip


@pytest.mark.parametrize(
    ("factor", "slug"), [(-1.0, "wrong-sign"), (2.0, "wrong-factor")]
)
def test_two_mistakes_in_one_input_are_named_or_said_to_be_two(factor, slug):
    """A factor over all of it, and another mistake in a part of it."""
    seed, both, told = SEEDS["float64"], 0, []
    for case in cases(seed):
        right = bench(case, "float64", None, seed)
        for other, name, make in PLANTS:
            linear = other in TOGETHER and name != "tail_holds_garbage"
            vjp = make(right) if linear and len(right.domain) == 1 else None
            if vjp is None:
                continue

            def twice(x, y, vjp=vjp):
                return factor * vjp(x, y)

            planted = bench(case, "float64", twice, seed + 1)
            evidence = planted.evidence()
            if not shows(evidence):
                continue
            found = diagnosed(planted, evidence).findings
            slugs = {f.slug for f in found}
            both += slugs >= {slug, other}
            several = len(slugs) > 1 or any("more than one" in f.note for f in found)
            told.append((name, case.name, sorted(slugs), several))
    assert both >= 3, told
    assert sum(ok for *_, ok in told) >= 0.8 * len(told), [t for t in told if not t[-1]]


def test_part_of_a_large_jacobian_is_enough_for_most_names():
    """Some columns and no answer to a request, as for a function that is too large."""
    seed, led, asked = SEEDS["float64"], 0, 0
    missed = []
    needs_answers = {"wrong-saved-value"}
    for case in cases(seed):
        right = bench(case, "float64", None, seed)
        for slug, name, make in PLANTS[::3]:
            vjp = make(right)
            n = right.domain.size
            if vjp is None or n < 12 or slug in needs_answers:
                continue
            planted = bench(case, "float64", vjp, seed + 1)
            evidence = in_part(planted, planted.evidence())
            if not shows(evidence):
                continue
            found = diagnose(evidence).findings
            asked += 1
            led += bool(found) and found[0].slug == slug
            if not found or found[0].slug != slug:
                missed.append((slug, name, case.name, [f.slug for f in found]))
            assert found, (name, case.name, seed)
    assert led >= 0.9 * asked, (seed, led, asked, missed)


def in_part(b: Bench, e):
    """The same evidence with a third of the columns measured, the wrong ones first."""
    rng, n, m = np.random.default_rng(5), b.domain.size, b.codomain.size
    wrong = np.flatnonzero(e.probes[0].wrong)[: n // 3]
    cols = np.unique(np.concatenate([wrong, rng.choice(n, n // 3, replace=False)]))
    measured = np.isin(np.arange(n), cols)

    def partly(probe):
        code = np.where(measured, probe.expected.code, Code.UNMEASURED)
        known = replace(probe.expected, code=code.astype(np.int8))
        return replace(probe, expected=known)

    block = b.block(b.x, np.arange(m), cols)
    return replace(e, block=block, probes=tuple(map(partly, e.probes)))
