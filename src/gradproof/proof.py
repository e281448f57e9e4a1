"""One rule in, one record out; the only file that knows the order of the stages."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from gradproof.checks import (
    constrained,
    curves,
    gradient,
    history,
    linearity,
    overflow,
    parts,
    plain,
    refining,
    sampled,
    settings,
    stopping,
    ways,
    worth,
)
from gradproof.checks.gradient import Compared
from gradproof.patience import TooLong, allowance, patience
from gradproof.checks.rounding import own_rounding
from gradproof.diagnosis import diagnose
from gradproof.diagnosis import requests as requests_
from gradproof.errors import GradproofError, UsageError
from gradproof.oracles import Charted, Differences, best, chart, settled
from gradproof.rule import Primal, Reply, Rule
from gradproof.space import Matrix, Space, Vector, unit
from gradproof.verdict import (
    Asked,
    Block,
    Code,
    Curve,
    Elsewhere,
    Evidence,
    Finding,
    Form,
    Limit,
    Probe,
    Record,
    Severity,
    Undecided,
    Verdict,
)

LARGE = 1 << 16  # inputs or outputs from which a call is not cheap
WHOLE_ENTRIES = 1 << 18  # a Jacobian of more entries is not formed
WHOLE_SECONDS = 2.0  # nor one that would take longer than this, as planned beforehand
# A mismatch smaller than this share of the Jacobian may be that of a truncated solver.
SMALL_MISMATCH = 0.03
ROUNDS = 3  # of requests from the cards
ANSWER_SECONDS = 6.0  # after which no further request is answered
PARTS = 8  # custom gradients inside a callable that are proved alone, at most
NO_SECOND_ORDER = "second order: there is none"
PATIENCE = 4  # times the repeats, where something is odd
# A block that a card asks for is measured thoroughly up to this size. What is wrong is
# known by then; it is asked for to be named.
THOROUGH_ENTRIES = 1 << 12

# Without resolve=, a PASS must at least have been able to see an error of this size.
RESOLVE = {"float64": 1e-2, "float32": 5e-2, "float16": 0.25, "bfloat16": 0.5}


@dataclass(frozen=True)
class Options:
    """How far to go. ``tolerate`` and ``resolve`` are relative errors."""

    seed: int = 0
    tolerate: float = 0.0
    resolve: float | None = None
    orders: int = 1
    allow: tuple[str, ...] = ()
    ways: bool = True
    seconds: float = WHOLE_SECONDS


@dataclass(eq=False)
class _Run:
    """One proof under way: the rule, its point, and what has been gathered."""

    rule: Rule
    options: Options
    rng: np.random.Generator
    x: Vector
    value: Vector
    ybar: Vector
    other: Vector
    got: Vector
    own: Vector
    form: Form = field(default_factory=Form)
    vjps: int = 0
    oracles: list[tuple[Primal, Vector, Differences]] = field(default_factory=list)

    def best(self, primal: Primal, x: Vector) -> Differences:
        """What is differenced at ``x``, chosen once."""
        for known, at, oracle in self.oracles:
            if known is primal and np.array_equal(at, x):
                return oracle
        oracle = best(primal, x)
        self.oracles.append((primal, x, oracle))
        return oracle

    @property
    def domain(self) -> Space:
        return self.rule.primal.domain

    @property
    def codomain(self) -> Space:
        return self.rule.primal.codomain


# The same rule at settings that make its forward more exact: label, number, rule.
Refined = tuple[str, float | None, Rule]


@np.errstate(all="ignore")  # ours to look at, whatever the user's own setting
def prove(rule: Rule, options: Options, refined: tuple[Refined, ...] = ()) -> Record:
    """Ask everything, cheapest first, and conclude."""
    started = time.perf_counter()
    rng = np.random.default_rng([options.seed, 0x9E3779B9])
    primal = rule.primal
    x = primal.domain.snap(primal.point)
    value = _must(primal.value(x), primal.codomain.size)
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
        return _concluded(rule, options, base, None, (), started)
    own = own_rounding(rule, x, ybar, reply.value, rng)
    run = _Run(
        rule, options, rng, x, value, ybar, other, reply.value, own, base.form, 5
    )
    return _proved(run, base, started, refined)


def _proved(
    run: _Run, base: Evidence, started: float, refined: tuple[Refined, ...]
) -> Record:
    rule, options = run.rule, run.options
    wander, wandered = history.history(rule.primal, run.value, _elsewhere(run))
    again = ways.repeats(rule, run.x, run.ybar, run.got, run.own)
    base = replace(
        base,
        stateful=f"{wandered} outputs changed by up to {wander:.1e} (relative)"
        if wandered
        else "",
        linearity=linearity.linearity(
            rule, run.x, run.ybar, run.got, run.own, run.other
        ),
    )
    truth = _truth_rule(rule)
    found = _compare(run, truth or rule)
    if not (rule.differentiable and base.form.graph) and not found.wrong:
        raise UsageError(
            f"the result of {rule.source.name} depends on no input, by a graph or by its "
            "values, so there is no gradient to check"
        )
    weighed = _refined(run, found, refined)
    found, early = weighed.found, weighed.elsewhere
    if not refined:
        found, early = _stopping(run, truth or rule, found)
    heard = plain.hear(rule, truth, found, run.x, run.ybar, run.rng)
    found = heard.found
    native = _native(run, truth, found, heard.yard) + heard.elsewhere
    moved = None
    if not found.wrong and not weighed.inexact and _vague(run, found):
        moved = _moved(run, truth or rule)
    shown = moved if moved is not None and moved.wrong else found
    evidence = replace(
        base,
        point=shown.point,
        block=shown.block,
        probes=shown.probes,
        directions=shown.directions,
        located=shown.located,
        asked=_asked(run, found),
        elsewhere=early + native + _settings(run, truth, found),
        overflow=_overflow(rule),
        curves=_curves(truth or rule, shown),
    )
    evidence = _repeated(run, evidence, again)
    undecided, left_out = worth.unanswered(found, run.domain, run.codomain)
    undecided = (*weighed.undecided, *heard.undecided, *undecided)
    if wandered:
        undecided = (_stateful(base.stateful), *undecided)
    notes = (*rule.notes, *_ours(rule), *weighed.notes, *heard.notes)
    if shown is not found:
        notes = (
            *notes,
            "compared at other values too: at the inputs given some error could not show",
        )
    at = chart(run.domain, run.x)
    notes = (*notes, *constrained.notes(at))
    evidence = _last_digits(run, found, evidence)
    evidence, findings = _diagnosed(run, evidence, truth)
    findings = _blamed(run, evidence, findings)
    return _concluded(
        rule, options, evidence, found, findings, started, undecided, left_out, notes,
        symmetric=_symmetric(evidence), still=_still(run, found),
        along=constrained.compared(at), inexact=weighed.inexact,
    )  # fmt: skip


def _curves(rule: Rule, shown: Compared) -> tuple[Curve, ...]:
    """Those of a large problem only where something is wrong: they take as long."""
    n, m = rule.primal.domain.size, rule.primal.codomain.size
    if max(n, m) > LARGE and not shown.wrong:
        return ()
    return curves.curves(rule.primal, shown)


def _ours(rule: Rule) -> tuple[str, ...]:
    """That what was checked is not the user's, where it is not."""
    if rule.custom or rule.source.kind not in ("function", "module"):
        return ()
    return (
        f"{rule.source.name} applies no custom gradient; autograd's own was checked",
    )


def _repeated(run: _Run, evidence: Evidence, seen: ways.Spread) -> Evidence:
    """What repeats told; on suspicion there are more, for a race is seldom lost."""
    lin = evidence.linearity
    odd = evidence.wrong or (lin is not None and bool(lin.broken()))
    odd |= any(
        not a.agreed and a.failure is None and a.severity is Severity.ERROR
        for a in evidence.asked
    )
    question = (run.rule, run.x, run.ybar, run.got, run.own)
    if odd and not seen.odd:
        seen = ways.repeats(*question, patience=PATIENCE)
    probe = ways.odd_one(*question, seen)
    return replace(
        evidence,
        nondeterministic=seen.units,
        odd_calls=(seen.odd, seen.calls),
        probes=(*evidence.probes, *(() if probe is None else (probe,))),
    )


def _must(reply: Reply, size: int) -> Vector:
    """The value at the point, which the adapter has seen before."""
    return np.full(size, np.nan) if reply.value is None else reply.value


def _elsewhere(run: _Run) -> Vector:
    """Another point, some way off, inside the domain's bounds."""
    size = np.maximum(np.abs(run.x), 0.25)
    step = size * run.rng.choice([-0.25, 0.25, 0.375], run.domain.size)
    moved = np.clip(run.x + step, run.domain.lows(), run.domain.highs())
    moved = np.where(np.isfinite(run.x), moved, run.x)
    return run.domain.snap(settled(run.domain, run.x, moved))


def _truth_rule(rule: Rule) -> Rule | None:
    """The same rule in float64, where the forward is proven to be the same function."""
    if all(leaf.precision == "float64" for leaf in rule.primal.domain):
        return None
    primal = rule.primal
    try:
        with patience(allowance(lambda: primal.value(primal.point))):
            wide = rule.in_precision("float64")
    except TooLong:
        return None
    if wide is None:
        return None
    a = primal.value(primal.point).value
    b = wide.primal.value(wide.primal.point).value
    if a is None or b is None or a.shape != b.shape:
        return None
    coarse = max(rule.primal.domain.unit, rule.primal.codomain.unit)
    top = np.abs(np.nan_to_num(b)).max(initial=0.0)
    # In half precision a thousand roundings would let any other function through, such
    # as one that draws other numbers.
    room = min(1e3 * coarse, 0.06)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= room * np.maximum(np.abs(b), 1e-2 * top)
    return wide if (near | (np.isnan(a) & np.isnan(b)) | (a == b)).all() else None


def _compare(run: _Run, rule: Rule) -> Compared:
    """The whole Jacobian where it is affordable, directions otherwise."""
    return _compare_at(run, rule, run.x)


def _compare_at(run: _Run, rule: Rule, x: Vector) -> Compared:
    at = chart(rule.primal.domain, x)
    if at is None:
        found = _compare_plainly(run, rule, x)
        return _accepting(run, rule, found)
    inner = constrained.ChartedRule(rule, at)
    found = constrained.back(at, _compare_plainly(run, inner, at.point))
    return _accepting(run, rule, found)


def _accepting(run: _Run, rule: Rule, found: Compared) -> Compared:
    primal = rule.primal
    return gradient.accepting(
        found, run.options.tolerate, primal.domain, primal.codomain
    )


def _compare_plainly(run: _Run, rule: Rule, x: Vector) -> Compared:
    oracle = run.best(rule.primal, x)
    n, m = rule.primal.domain.size, rule.primal.codomain.size
    once = _seconds(lambda: rule.primal.value(x))
    back = _seconds(lambda: rule.vjp(x, run.ybar))
    planned = 5 * n * once + 3 * m * back
    if n * m <= WHOLE_ENTRIES and (planned <= run.options.seconds or n + m <= 16):
        return gradient.whole(rule, oracle, x, run.ybar, run.rng)
    ybars = [run.ybar, run.other]
    return sampled.sampled(rule, oracle, x, ybars, run.rng, run.options.seconds)


def _seconds(call: Callable[[], object]) -> float:
    """What a call takes; the second time where the first was slow to start."""
    taken = []
    for _ in range(2):
        clock = time.perf_counter()
        call()
        taken.append(time.perf_counter() - clock)
        if taken[0] > 1.0:
            break
    return min(taken)


def _refined(
    run: _Run, found: Compared, refined: tuple[Refined, ...]
) -> refining.Weighed:
    """The mismatch at settings that make the forward more exact."""
    if not refined:
        return refining.Weighed(found)
    state = copy.deepcopy(run.rng)
    settings_ = []
    for label, number, rule in refined:
        again = replace(run, rule=rule, rng=copy.deepcopy(state))
        there = _compare_at(again, _truth_rule(rule) or rule, run.x)
        settings_.append(refining.Setting(label, number, there))
    out = refining.weigh(found, settings_)
    tight, note = refining.tightest(settings_)
    if out.found.wrong or tight.wrong or out.undecided:
        return out
    open_ = [
        worth.unanswered(c, run.domain, run.codomain)[0] for c in (out.found, tight)
    ]
    if open_[0] and not open_[1]:
        return replace(out, found=tight, notes=(*out.notes, note))
    return out


def _stopping(
    run: _Run, rule: Rule, found: Compared
) -> tuple[Compared, tuple[Elsewhere, ...]]:
    """A small mismatch is weighed against the jumps of a forward that stops early."""
    b = found.block
    if b is None or not b.whole or not b.wrong.any():
        return found, ()
    with np.errstate(invalid="ignore"):
        apart = np.where(b.wrong, np.abs(b.implied - b.value), 0.0)
    gap = float(np.nan_to_num(apart, nan=np.inf).max())
    size = float(np.nan_to_num(np.abs(b.value)).max())
    if not gap <= SMALL_MISMATCH * size:
        return found, ()
    scales = run.best(rule.primal, run.x).scales()
    at = chart(rule.primal.domain, run.x)
    primal = rule.primal if at is None else Charted(rule.primal, at)
    steps = scales if at is None else best(primal).scales()
    jumps = stopping.stopping(primal, steps, run.rng)
    wider = _wider(found, stopping.excused(jumps, run.value, scales))
    if wider.wrong:
        return found, ()
    note = (
        f"the forward jumps by up to {jumps.max():.1e} where it stops an iteration "
        f"later, and the gradient is {gap:.1e} from that of the iterations taken"
    )
    early = Elsewhere("as it stops early", "refine", Verdict.FAIL, note=note)
    return wider, (early,)


def _wider(found: Compared, share: Matrix) -> Compared:
    """``found`` with this much more room for each entry of its whole block."""
    if found.block is None:
        return found
    block = replace(found.block, own=found.block.own + share)
    probes = tuple(
        replace(p, own=p.own + np.abs(p.cotangent) @ share) for p in found.probes
    )
    return replace(found, block=block, probes=probes)


def _last_digits(run: _Run, found: Compared, evidence: Evidence) -> Evidence:
    """``evidence``, a mismatch in the last digits alone being none: the rule is inexact.

    Unless it is explained by a lower precision inside, which has a name of its own.
    """
    if found.block is None or not found.block.whole or not found.wrong:
        return evidence
    if evidence.block is not found.block or found.directions:
        return evidence
    room = stopping.last_digits(found.block, run.domain, run.codomain)
    wider = _wider(found, room)
    if wider.wrong or _named(evidence, "hidden-low-precision"):
        return evidence
    early = Elsewhere("in the last digits", "refine", Verdict.FAIL, note=_DIGITS)
    return replace(
        evidence,
        block=wider.block,
        probes=wider.probes,
        elsewhere=(*evidence.elsewhere, early),
    )


def _named(evidence: Evidence, slug: str) -> bool:
    return any(f.slug == slug for f in diagnose(evidence).findings)


def _native(
    run: _Run, truth: Rule | None, found: Compared, yard: Vector | None
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


def _settings(run: _Run, truth: Rule | None, found: Compared) -> tuple[Elsewhere, ...]:
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
        out += _second(run, truth or rule)
    return tuple(out)


def _second(run: _Run, rule: Rule) -> list[Elsewhere]:
    derived = rule.derived("second order")
    if derived is None:
        run.rule.second_order_note = rule.second_order_note or NO_SECOND_ORDER
        return []
    reply = derived.vjp(derived.primal.point, derived.primal.codomain.draw(run.rng))
    if reply.failure is not None:
        return [
            Elsewhere("second order", "order", Verdict.UNDECIDED, failure=reply.failure)
        ]
    inner = _Run(
        derived,
        run.options,
        run.rng,
        derived.primal.point,
        _must(derived.primal.value(derived.primal.point), derived.primal.codomain.size),
        derived.primal.codomain.draw(run.rng),
        derived.primal.codomain.draw(run.rng),
        np.zeros(0),
        np.zeros(0),
    )
    found = _compare_at(inner, derived, derived.primal.point)
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


def _asked(run: _Run, found: Compared) -> tuple[Asked, ...]:
    """Every way, and forward mode."""
    if not run.options.ways:
        return ()
    out = list(ways.asked(run.rule, run.x, run.ybar, run.own))
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


def _overflow(rule: Rule) -> tuple[float, float, str] | None:
    seen = overflow.overflow(rule)
    if seen is None:
        return None
    return seen.x, seen.value, f"{seen.path}: {seen.gave}"


def _vague(run: _Run, found: Compared) -> bool:
    """Whether a wrong gradient could have hidden in the values given."""
    values = [run.x[leaf.slice] for leaf in run.domain]
    for leaf, v in zip(run.domain, values, strict=True):
        if leaf.size > 1 and (v == v[0]).all():
            return True
        if v.size and np.isin(v, (0.0, 1.0)).all():
            return True
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    if any(a.size == b.size and a.size and np.array_equal(a, b) for a, b in pairs):
        return True
    b = found.block
    if b is None or not b.whole:
        return False
    return any(
        not b.value[out.slice, leaf.slice].any()
        and not b.implied[out.slice, leaf.slice].any()
        for out in run.codomain
        for leaf in run.domain
    )


def _moved(run: _Run, rule: Rule) -> Compared | None:
    """The comparison at other values of the same shape; None where none are valid."""
    scale = run.best(rule.primal, run.x).scales()
    for size in (1.0, 0.25):
        draw = run.rng.integers(16, 96, run.domain.size) / 64.0
        sign = np.where(run.rng.random(run.domain.size) < 0.5, -1.0, 1.0)
        x = np.clip(
            run.x + size * scale * draw * sign, run.domain.lows(), run.domain.highs()
        )
        x = run.domain.snap(settled(run.domain, run.x, x))
        value = rule.primal.value(x).value
        if value is not None and np.isfinite(value).all():
            return _compare_at(run, rule, x)
    return None


def _still(run: _Run, found: Compared) -> bool:
    """No derivative anywhere, and no value that ever changes: nothing could be seen."""
    b = found.block
    if b is not None and b.whole:
        if b.value.any() or b.implied.any() or (b.code != Code.OK).any():
            return False
    elif any(d.expected != 0 or d.got != 0 for d in found.directions):
        return False
    for _ in range(4):
        step = run.rng.uniform(-4, 4, run.domain.size)
        x = np.clip(run.x + step, run.domain.lows(), run.domain.highs())
        x = settled(run.domain, run.x, x)
        value = run.rule.primal.value(run.domain.snap(x)).value
        if value is not None and not np.array_equal(value, run.value, equal_nan=True):
            return False
    return True


def _stateful(detail: str) -> Undecided:
    return Undecided(
        "stateful-forward",
        "f(x), f(x'), f(x)",
        f"the forward depends on what was called before: {detail}",
        "pass reset= (called before every forward), or clear the cache in the forward",
    )


def _symmetric(evidence: Evidence) -> str:
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


def _diagnosed(
    run: _Run, evidence: Evidence, truth: Rule | None
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
            answers.append((r.key, _answer(run, truth or run.rule, evidence, r)))
        answers = [(key, a) for key, a in answers if a is not None]
        if not answers:
            break
        evidence = replace(evidence, answers=(*evidence.answers, *answers))
        out = diagnose(evidence)
    return evidence, out.findings


def _blamed(
    run: _Run, evidence: Evidence, findings: tuple[Finding, ...]
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
            if (record := _alone(part, replace(run.options, ways=every_way)))
        ]
        if parts.guilty(records):
            break
    wrong = parts.guilty(records)
    if not wrong and plain and len(records) == len(inside):
        wrong = parts.declared(records)
    return parts.blame(findings, run.rule.source.name, records, wrong)


def _alone(part: Rule, options: Options) -> Record | None:
    """The proof of a part; None where nothing can be seen of it alone."""
    try:
        return prove(part, options)
    except GradproofError:
        return None


def _answer(
    run: _Run, rule: Rule, evidence: Evidence, request: requests_.Request
) -> Block | Probe | Vector | None:
    x = evidence.point
    if isinstance(request, requests_.Block):
        return _block_at(run, rule, x, request.rows, request.cols)
    if isinstance(request, requests_.BlockAt):
        return _block_at(run, rule, request.x, request.rows, request.cols)
    if isinstance(request, requests_.At):
        n, m = rule.primal.domain.size, rule.primal.codomain.size
        got = rule.vjp(request.x, request.ybar).value
        if got is None or n * m > WHOLE_ENTRIES:
            return None
        block = _block_at(run, rule, request.x, np.arange(m), np.arange(n))
        own = own_rounding(rule, request.x, request.ybar, got, run.rng)
        at = chart(rule.primal.domain, request.x)
        got = got if at is None else at.project(got)
        return gradient.probe_of(block, request.x, request.ybar, got, own)
    if isinstance(request, requests_.Frozen):
        for way in rule.ways():
            for part in (way, *way.parts):
                if part.name == f"only {request.leaves[0]} requires grad":
                    return rule.vjp(x, run.ybar, part).value
    return None


def _block_at(
    run: _Run, rule: Rule, x: Vector, rows: np.ndarray, cols: np.ndarray
) -> Block:
    at = chart(rule.primal.domain, x)
    if at is not None:
        inner = constrained.ChartedRule(rule, at)
        every = np.arange(at.space.size)
        b = constrained.back_block(at, _block_at(run, inner, at.point, rows, every))
        return gradient.some_columns(b, cols)
    oracle = run.best(rule.primal, x)
    implied, own = gradient.implied_rows(rule, x, rows, run.rng)
    small = len(cols) * rule.primal.codomain.size <= THOROUGH_ENTRIES
    plan = "thorough" if small and len(cols) <= gradient.CONFIRMED_COLUMNS else "quick"
    return gradient.measured(oracle, rows, cols, implied, own, plan)


def _concluded(
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
) -> Record:
    """Verdict, limits and what was not asked."""
    if found is None:
        findings = diagnose(evidence).findings
    findings = tuple(
        replace(
            f,
            allowed=f.allowed or f.slug in options.allow or f.slug in rule.source.allow,
        )
        for f in findings
    )
    if symmetric:
        undecided = (*undecided, _outside(symmetric))
        findings = tuple(f for f in findings if f.severity != Severity.ERROR)
    if still:
        undecided = (*undecided, _VACUOUS)
    errors = [f for f in findings if f.severity == Severity.ERROR and not f.allowed]
    limits = _limits(found, evidence)
    if not undecided and not errors and not (inexact and options.resolve is None):
        undecided = _too_coarse(options, evidence, limits)
    allowed = set(options.allow) | set(rule.source.allow)
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
        not_asked=_not_asked(rule, options),
        notes=notes or rule.notes,
        evidence=evidence,
        seed=options.seed,
        evaluations=(found.evaluations, found.vjps) if found is not None else (1, 1),
        seconds=time.perf_counter() - started,
    )


_DIGITS = "the mismatch is less than float32 could tell"

_VACUOUS = Undecided(
    "vacuous",
    "every output",
    "the output did not change at any of the points tried, so no gradient could show",
    "check at inputs where the output depends on them",
)


def _outside(path: str) -> Undecided:
    return Undecided(
        "domain",
        path,
        f"{path} is a symmetric matrix, and the rule agrees on symmetric tangents only",
        f"declare it: arg.symmetric or arg.spd for {path}, or pass a matrix that is not "
        "symmetric",
    )


def _limits(found: Compared | None, evidence: Evidence) -> tuple[Limit, ...]:
    """Of the formula, and of the dtype that was given where that is another one."""
    if found is None:
        return ()
    out = worth.limits(found)
    for e in evidence.elsewhere:
        if e.kind == "dtype" and e.evidence is not None:
            narrow = worth.probe_limit(e.evidence.probes[0])
            if narrow is not None:
                out = (*out, Limit(f"in {e.setting}", narrow))
    return out


def _too_coarse(
    options: Options, evidence: Evidence, limits: tuple[Limit, ...]
) -> tuple[Undecided, ...]:
    if not limits:
        return ()
    uniform = next((a.value for a in limits if a.structure == "uniform"), 0.0)
    coarse = max(evidence.domain.leaves, key=lambda leaf: unit(leaf.precision))
    wanted = options.resolve or RESOLVE[coarse.precision]
    if uniform <= wanted:
        return ()
    return (
        Undecided(
            "noise",
            "the whole gradient",
            f"an error below {uniform:.1g} would not have been seen, and "
            f"{wanted:.1g} was to be",
            "a wider dtype, a less noisy forward, reference=, or a larger resolve=",
        ),
    )


def _not_asked(rule: Rule, options: Options) -> tuple[str, ...]:
    out = []
    if options.orders < 2:
        out.append("second order")
    elif rule.second_order_note:
        out.append(rule.second_order_note)
    if not options.ways:
        out.append("ways")
    return (*out, "compile", "other shapes")
