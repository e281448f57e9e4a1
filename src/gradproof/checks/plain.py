"""What a plain reference says: one more witness, and the yardstick of a coarse dtype.

A rule passes in its own dtype when its error against the reference in float64 is no worse
than twice that of the reference in the same dtype, plus a rounding floor (the criterion
of FlashAttention's tests, Dao et al. 2022). A reference that is another function is no
evidence against a rule: then the witnesses disagree, and nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gradproof.checks.gradient import Compared
from gradproof.checks.rounding import leaf_scale, shake
from gradproof.checks.settings import GROSS
from gradproof.oracles import Chart, Differences, chart, settled
from gradproof.rule import Primal, Reference, Rule
from gradproof.space import Matrix, Space, Vector
from gradproof.verdict import (
    Block,
    Code,
    Elsewhere,
    Estimate,
    Probe,
    Undecided,
    Verdict,
)

# Values further apart than this, relative to the largest of their output, and further
# than the yardstick allows, are those of two functions.
APART = {"float64": 1e-6, "float32": 1e-3, "float16": 2e-2, "bfloat16": 8e-2}
TWICE = 2.0
SHIFT = 0.3  # what is added and taken away again to see the rounding of a dtype
NOISES = 16.0  # of the function's own noise, which is excused too
POINTS = 3  # beside the point itself, at which the values must agree
ROWS = 256  # outputs whose rows are asked of the reference, at most
OPEN = (Code.NOISE, Code.SCALE, Code.UNMEASURED)
METHOD = "{method}; narrowed by the reference"

RATIOS = "against the reference in {dtype}: {ratios}"
RATIO = "{what} {ratio:.2g} times its error"
EXACT = "against the reference: {ratios}"
WITHIN = "{what} equal to within rounding"
NO_FLOAT64 = "the reference does not run in float64, so it was no yardstick"
VALUES_DIFFER = (
    "because the witnesses disagree: the function gives {got:.9g} there and the "
    "reference {expected:.9g}"
)
SLOPES_DIFFER = (
    "because the witnesses disagree: differences of the function give {got:.9g} ± "
    "{bound:.1e} there and the reference {expected:.9g}"
)
DECIDE = "give a reference that is the same function, or leave reference= out"


@dataclass(frozen=True, eq=False)
class Heard:
    """What stands once the reference was heard."""

    found: Compared
    undecided: tuple[Undecided, ...] = ()
    notes: tuple[str, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    yard: Vector | None = None  # what the rule may be off by in its own dtype


@dataclass(frozen=True, eq=False)
class _Truth:
    """The reference's vjp in float64, with the error that it may carry."""

    ref: Reference
    x: Vector
    space: Space
    at: Chart | None = None
    jacobian: Matrix | None = None  # by differences, where it carries no gradient
    bound: Matrix = field(default_factory=lambda: np.zeros((0, 0)))

    def __call__(self, ybar: Vector) -> tuple[Vector, Vector]:
        if self.jacobian is not None:
            return ybar @ self.jacobian, np.abs(ybar) @ self.bound
        assert self.ref.exact_vjp is not None  # see ``_truth``
        value = self.ref.exact_vjp(self.x, ybar).value
        if value is None:
            value = np.full(self.space.size, np.nan)
        if self.at is not None:
            value = self.at.project(value)
        return value, 1e-9 * leaf_scale(self.space, value)


def hear(
    rule: Rule,
    truth: Rule | None,
    found: Compared,
    x: Vector,
    ybar: Vector,
    rng: np.random.Generator,
) -> Heard:
    """Weigh ``found`` with the reference that was given beside the rule.

    Args:
        rule: the rule in its own dtype.
        truth: the same rule in float64 where ``found`` is of that, else None.
        found: what differences of the function said.
        x: the point.
        ybar: a cotangent.
        rng: draws points at which values are compared.
    """
    ref = rule.reference()
    if ref is None:
        return Heard(found)
    if ref.exact is None:
        return Heard(found, notes=(NO_FLOAT64,))
    apart = _values_apart(rule.primal, ref, x, rng)
    if apart is not None:
        return Heard(found, (apart,))
    exact = _truth(ref, x, rule.primal)
    if exact is None:
        return Heard(found, notes=(_said(rule, _value_ratios(rule.primal, ref, x)),))
    wrong = _slopes_apart(rule.primal, found, exact)
    if wrong is not None:
        return Heard(found, (wrong,))
    yard, ratios, worst = _yardstick(rule, ref, exact, x, ybar)
    said = _said(rule, [*_value_ratios(rule.primal, ref, x), *ratios])
    elsewhere = _inaccurate(rule.primal.domain, worst)
    if truth is None:
        found = _narrowed(rule.primal.domain, found, exact, yard)
    return Heard(found, (), (said,), elsewhere, yard)


# Values.


def _floor(space: Space, v: Vector) -> Vector:
    """Twice the largest rounding of adding a number and taking it away, by leaf."""
    once = space.snap(np.nan_to_num(v) + SHIFT)
    return TWICE * leaf_scale(space, space.snap(once - SHIFT) - np.nan_to_num(v))


def _value(primal: Primal, x: Vector) -> Vector:
    value = primal.value(x).value
    return np.full(primal.codomain.size, np.nan) if value is None else value


def _values_apart(
    primal: Primal, ref: Reference, x: Vector, rng: np.random.Generator
) -> Undecided | None:
    """Where the function and the reference are two functions; None where they agree."""
    domain, codomain = primal.domain, primal.codomain
    assert ref.exact is not None  # the caller has asked
    noise = _noise(primal, x, rng)
    for k in range(POINTS + 1):
        at = x
        if k:
            size = np.maximum(np.abs(x), 0.25) * rng.choice(
                [-0.25, 0.125, 0.25], x.size
            )
            moved = np.clip(x + size, domain.lows(), domain.highs())
            at = domain.snap(settled(domain, x, moved))
        got, plain = _value(primal, at), _value(ref.primal, at)
        want = _value(ref.exact, at)
        own = np.zeros(len(want))
        for _ in range(2):
            shaken = _value(ref.exact, shake(domain, at, rng))
            own = np.fmax(own, np.nan_to_num(np.abs(shaken - want)))
        with np.errstate(invalid="ignore"):
            yard = TWICE * leaf_scale(codomain, plain - want) + _floor(codomain, want)
            share = np.array([APART[leaf.precision] for leaf in codomain])
            each = np.repeat(share, [leaf.size for leaf in codomain])
            room = yard + 8 * own + each * leaf_scale(codomain, want) + noise
            far = ~(np.abs(got - want) <= room)
        far &= ~((got == want) | (np.isnan(got) & np.isnan(want)))
        if k and not np.isfinite(got).all():
            continue  # outside the function's domain, where nothing binds it
        if far.any():
            with np.errstate(invalid="ignore"):
                gap = np.nan_to_num(np.abs(got - want), nan=np.inf)
            i = int(np.argmax(np.where(far, gap, -1.0)))
            detail = VALUES_DIFFER.format(got=got[i], expected=want[i])
            return Undecided(
                "witnesses", str(codomain.place(i)), detail, DECIDE, int(far.sum())
            )
    return None


def _noise(primal: Primal, x: Vector, rng: np.random.Generator) -> Vector:
    """What the function's own noise excuses, output by output."""
    native = Differences(primal, x)
    at = chart(primal.domain, x)
    u = native.scales() * rng.choice([-1.0, 0.75, 1.0], x.size)
    u = u if at is None else at.project(u)
    return NOISES * np.nan_to_num(native.direction(u, "thorough").noise)


def _value_ratios(
    primal: Primal, ref: Reference, x: Vector
) -> list[tuple[str, float | None]]:
    """Error of the values in units of the reference's in the same dtype, by output."""
    assert ref.exact is not None  # the caller has asked
    got, plain, want = (_value(p, x) for p in (primal, ref.primal, ref.exact))
    return [
        (leaf.path, _ratio(Space.of([leaf]), *(v[leaf.slice] for v in (got, plain, want))))
        for leaf in primal.codomain
    ]  # fmt: skip


def _ratio(space: Space, got: Vector, plain: Vector, want: Vector) -> float | None:
    """Largest |got − want| over the largest |plain − want|; None where both are rounding."""
    with np.errstate(invalid="ignore"):
        mine = float(np.nan_to_num(np.abs(got - want)).max(initial=0.0))
        theirs = float(np.nan_to_num(np.abs(plain - want)).max(initial=0.0))
    floor = float(_floor(space, want).max(initial=0.0))
    if mine <= floor:
        return None
    return mine / max(theirs, floor / TWICE)


def _said(rule: Rule, ratios: list[tuple[str, float | None]]) -> str:
    parts = [
        WITHIN.format(what=what) if r is None else RATIO.format(what=what, ratio=r)
        for what, r in ratios
    ]
    dtype = rule.primal.domain.leaves[0].precision
    if dtype == "float64":
        return EXACT.format(ratios=", ".join(parts))
    return RATIOS.format(dtype=dtype, ratios=", ".join(parts))


# Gradients.


def _truth(ref: Reference, x: Vector, primal: Primal) -> _Truth | None:
    """The reference's derivative in float64; None where it cannot be had."""
    space = primal.domain
    at = chart(space, x)
    if ref.exact_vjp is not None:
        return _Truth(ref, x, space, at)
    if (
        ref.exact is None
        or at is not None
        or space.size * primal.codomain.size > 1 << 14
    ):
        return None
    c = Differences(ref.exact, x).columns(np.arange(space.size), "thorough")
    known = c.code == Code.OK
    value = np.where(known, c.value, np.nan)
    return _Truth(ref, x, space, None, value, np.where(known, c.bound, np.nan))


def _slopes_apart(primal: Primal, found: Compared, truth: _Truth) -> Undecided | None:
    """Where differences of the function exclude the reference's derivative."""
    b = found.block
    if b is not None and b.whole:
        rows, bound = _rows(primal.codomain, truth)
        if rows is not None:
            with np.errstate(invalid="ignore"):
                # A rule that is inexact by so much is excused, and the reference too.
                far = np.abs(rows - b.value) > b.bound + bound + b.own
            far &= (b.code == Code.OK) & np.isfinite(b.value) & np.isfinite(rows)
            if far.any():
                i, j = (int(k) for k in np.argwhere(far)[0])
                where = f"{primal.codomain.place(i)} by {primal.domain.place(j)}"
                detail = SLOPES_DIFFER.format(
                    got=b.value[i, j], bound=b.bound[i, j], expected=rows[i, j]
                )
                return Undecided("witnesses", where, detail, DECIDE, int(far.sum()))
        return None
    for d in found.directions:
        if d.left_out:
            continue  # the outputs left out are part of what the reference gives
        value, error = truth(d.cotangent)
        there = float(value @ d.tangent)
        room = d.bound + float(error @ np.abs(d.tangent))
        if d.code == Code.OK and np.isfinite(there) and abs(there - d.expected) > room:
            detail = SLOPES_DIFFER.format(got=d.expected, bound=d.bound, expected=there)
            return Undecided("witnesses", "a direction", detail, DECIDE)
    return None


def _rows(codomain: Space, truth: _Truth) -> tuple[Matrix | None, Matrix]:
    """The reference's whole Jacobian, where its outputs are few."""
    if truth.jacobian is not None:
        return truth.jacobian, truth.bound
    if codomain.size > ROWS:
        return None, truth.bound
    asked = [truth(row) for row in np.eye(codomain.size)]
    return np.array([a for a, _ in asked]), np.array([e for _, e in asked])


def _yardstick(
    rule: Rule, ref: Reference, truth: _Truth, x: Vector, ybar: Vector
) -> tuple[Vector | None, list[tuple[str, float | None]], float]:
    """What the rule may be off by, entry by entry; its ratios by input; the worst one."""
    domain = rule.primal.domain
    got = rule.vjp(x, ybar).value
    plain = None if ref.vjp is None else ref.vjp(x, ybar).value
    want, _ = truth(ybar)
    if got is None or plain is None:
        return None, [], 0.0
    ratios = [
        (
            f"d/d{leaf.path}",
            _ratio(Space.of([leaf]), *(v[leaf.slice] for v in (got, plain, want))),
        )
        for leaf in domain
        if np.isfinite(want[leaf.slice]).all()
    ]  # fmt: skip
    yard = TWICE * leaf_scale(domain, plain - want) + _floor(domain, want)
    worst = max((r for _, r in ratios if r is not None), default=0.0)
    return yard, ratios, worst


def _inaccurate(domain: Space, worst: float) -> tuple[Elsewhere, ...]:
    name = domain.leaves[0].precision
    if not worst:
        return ()
    return (Elsewhere(name, "reference", Verdict.PASS, note=f"{worst:.1f}"),)


def _narrowed(
    domain: Space, found: Compared, truth: _Truth, yard: Vector | None
) -> Compared:
    """``found`` with the reference's answers where they are sharper.

    Nothing is called wrong by them that is not another computation (GROSS) and worse
    than the yardstick.
    """
    block = found.block
    if block is not None and block.whole:
        codomain_rows = len(block.rows)
        hot = np.eye(codomain_rows)
        if codomain_rows <= ROWS or truth.jacobian is not None:
            rows = [truth(row) for row in hot]
            block = _narrow_block(domain, block, rows, yard)
    probes = tuple(_narrow_probe(domain, p, truth, yard) for p in found.probes)
    return replace(found, block=block, probes=probes)


def _room(domain: Space, value: Vector, yard: Vector | None) -> Vector:
    share = np.concatenate([np.full(a.size, GROSS[a.precision]) for a in domain])
    room = share * leaf_scale(domain, value)
    return room if yard is None else np.maximum(room, yard)


def _narrow_block(
    domain: Space, b: Block, rows: list[tuple[Vector, Vector]], yard: Vector | None
) -> Block:
    value = np.array([a for a, _ in rows])
    error = np.array([e for _, e in rows])
    room = np.array([_room(domain, a, yard) for a in value]) + error
    known = np.isfinite(value)
    open_ = np.isin(b.code, OPEN) & known
    with np.errstate(invalid="ignore"):
        agree = (
            (b.code == Code.OK) & known & (np.abs(value - b.value) <= b.bound + error)
        )
        sharper = open_ | (agree & (room < b.bound))
    return replace(
        b,
        value=np.where(sharper, value, b.value),
        bar=np.where(sharper, np.minimum(error + room / 4, b.bar), b.bar),
        bound=np.where(sharper, room, b.bound),
        code=np.where(open_, Code.OK, b.code).astype(np.int8),
        own=np.where(sharper, np.minimum(b.own, room), b.own),
        method=METHOD.format(method=b.method) if sharper.any() else b.method,
    )


def _narrow_probe(domain: Space, p: Probe, truth: _Truth, yard: Vector | None) -> Probe:
    value, error = truth(p.cotangent)
    e: Estimate = p.expected
    room = _room(domain, value, yard) + error
    known = np.isfinite(value)
    open_ = np.isin(e.code, OPEN) & known
    with np.errstate(invalid="ignore"):
        agree = (
            (e.code == Code.OK) & known & (np.abs(value - e.value) <= e.bound + error)
        )
        sharper = open_ | (agree & (room < e.bound))
    if not sharper.any():
        return p
    expected = replace(
        e,
        value=np.where(sharper, value, e.value),
        bar=np.where(sharper, np.minimum(error + room / 4, e.bar), e.bar),
        bound=np.where(sharper, room, e.bound),
        code=np.where(open_, Code.OK, e.code).astype(np.int8),
        method=METHOD.format(method=e.method),
    )
    own = np.where(sharper, np.minimum(p.own, room), p.own)
    return replace(p, expected=expected, own=own)
