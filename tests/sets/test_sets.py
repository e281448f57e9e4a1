"""Charts of declared sets: algebra, and what the proof makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import gradproof
from gradproof import Verdict, arg
from gradproof.adapters import realise
from gradproof.oracles import chart, misfit, settled
from gradproof.samples import draw
from gradproof.space import Leaf, Space

DESCRIBED = {
    "spd": arg.spd(2, 3, 3),
    "symmetric": arg.symmetric(4, 4),
    "triangular": arg.triangular(3, 3),
    "upper": arg.upper(3, 3),
    "unit": arg.unit(5, 4),
    "unit[0]": arg.unit(3, 2, axis=0),
    "simplex": arg.simplex(2, 5),
    "sorted": arg.sorted(6),
    "positive": arg.positive(2, 3),
    "hermitian": arg.spd(3, 3, dtype="complex128"),
    "complex triangular": arg.triangular(3, 3, dtype="complex128"),
    "complex unit": arg.unit(2, 3, dtype="complex128"),
}


def placed(described):
    [one] = draw([described], {}, 0)
    kind = one.array.dtype.kind == "c"
    space = Space.of([Leaf("x", one.array.shape, "float64", kind, pattern=one.pattern)])
    flat = one.array.reshape(-1)
    if kind:
        flat = np.stack([flat.real, flat.imag], axis=-1).reshape(-1)
    return space, flat.astype(np.float64)


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_chart_is_a_retraction_with_its_projector(name):
    space, x = placed(DESCRIBED[name])
    assert misfit(space.leaves[0], x) == ""
    at = chart(space, x)
    rng = np.random.default_rng(1)
    assert np.allclose(at.out(at.point), x, rtol=0, atol=1e-15)
    v, s = rng.normal(size=space.size), rng.normal(size=at.space.size)
    p = at.project(v)
    assert np.allclose(at.project(p), p, atol=1e-13)
    assert v @ at.push(s) == pytest.approx(at.gather(v) @ s)
    assert np.allclose(at.project(at.push(s)), at.push(s), atol=1e-13)
    assert (at.cover(np.abs(s)) >= np.abs(at.spread(s)) - 1e-12).all()
    h = 1e-6
    slope = (at.out(at.point + h * s) - at.out(at.point - h * s)) / (2 * h)
    assert np.allclose(slope, at.push(s), atol=1e-8)


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_coordinate_may_go_to_its_bounds(name):
    space, x = placed(DESCRIBED[name])
    at = chart(space, x)
    for j in range(at.space.size):
        for end in (at.space.lows()[j], at.space.highs()[j]):
            s = at.point.copy()
            s[j] = np.clip(end, -50, 50)
            there = at.out(s)
            assert at.inside(there)
            if name != "sorted":
                assert misfit(space.leaves[0], there) == ""


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_settled_point_lies_in_the_set(name):
    space, x = placed(DESCRIBED[name])
    rng = np.random.default_rng(2)
    moved = settled(space, x, x + 0.7 * rng.normal(size=space.size))
    assert misfit(space.leaves[0], moved) == ""
    assert not np.array_equal(moved, x)


def test_no_declared_set_needs_no_chart():
    space = Space.of([Leaf("x", (3,))])
    assert chart(space, np.ones(3)) is None
    assert (
        chart(Space.of([Leaf("x", (2,), pattern="unit")]), np.full(2, np.nan)) is None
    )
    moved = np.arange(3.0)
    assert settled(space, np.ones(3), moved) is moved


OUTSIDE = {
    "spd": (np.array([[1.0, 2.0], [2.0, 1.0]]), "its smallest eigenvalue is -1"),
    "symmetric": (np.array([[1.0, 2.0], [0.5, 1.0]]), "two mirrored entries differ by 1.5"),
    "triangular": (np.ones((2, 2)), "an entry above its diagonal is 1"),
    "upper": (np.ones((2, 2)), "an entry below its diagonal is 1"),
    "unit": (np.array([3.0, 4.0]), "along axis -1 its length is 5"),
    "unit[0]": (np.array([[1.0]]), "a single entry cannot move inside it"),
    "unit[2]": (np.array([1.0, 0.0]), "it has 1 axes and no axis 2"),
    "simplex": (np.array([0.5, 0.75]), "along axis -1 its sum is 1.25"),
    "simplex[0]": (np.array([0.0, 1.0]), "its smallest value is 0"),
    "sorted": (np.array([1.0, 0.5]), "it falls by 0.5 along axis -1"),
    "positive": (np.array([1.0, -2.0]), "its smallest value is -2"),
}  # fmt: skip


@pytest.mark.parametrize("pattern", OUTSIDE)
def test_a_point_outside_is_refused_in_words(pattern):
    array, why = OUTSIDE[pattern]
    leaf = Leaf("x", array.shape, pattern=pattern)
    assert misfit(leaf, array.reshape(-1)) == why


def test_a_vector_is_no_matrix():
    assert misfit(Leaf("x", (3,), pattern="spd"), np.ones(3)) == "it has shape (3,)"


def test_check_refuses_values_outside_what_was_declared():
    with pytest.raises(gradproof.UsageError) as error:
        gradproof.check(
            np.sum, (arg.unit(np.array([3.0, 4.0])),), gradient=lambda x: np.ones(2)
        )
    assert str(error.value) == (
        "a was declared unit, but along axis -1 its length is 5; pass values that lie "
        "in the set, or leave the declaration out"
    )
    with pytest.raises(gradproof.UsageError) as error:
        gradproof.check(
            np.sum, (arg.within(np.array([3.0]), 0, 1),), gradient=lambda x: np.ones(1)
        )
    assert str(error.value) == (
        "a was declared within 0..1, but its values reach from 3 to 3; pass values that "
        "lie in the set, or leave the declaration out"
    )


def test_what_was_declared_of_a_users_array_does_not_stick_to_it():
    own = np.array([0.6, 0.8])
    from gradproof.adapters.describe import pattern_of

    (made,), _ = realise(draw([arg.unit(own)], {}, 0))
    assert pattern_of(made) == "unit"
    assert pattern_of(own) == ""
    assert np.shares_memory(own, made)


# Functions on a set, each with a gradient that is right on the tangent space only.


def logdet(a):
    return np.linalg.slogdet(a)[1]


def angle(q):
    return np.array([q[0] * q[1], q[2] ** 2 * q[0]]) / (q @ q)


def entropy(p):
    return -np.sum(p * np.log(p))


def solved(tri):
    return np.linalg.solve(np.tril(tri), np.ones(3))


def solved_vjp(ybar, tri):
    t = np.tril(tri)
    w = np.linalg.solve(t.T, ybar)
    return -np.outer(w, np.linalg.solve(t, np.ones(3)))  # its upper half is no gradient


def spread(t):
    return np.sum(1.0 / np.diff(t))


def spread_gradient(t):
    g = 1.0 / np.diff(t) ** 2
    return np.concatenate([[0.0], -g]) + np.concatenate([g, [0.0]])


def angle_vjp(ybar, q):
    """The gradient of q[0] q[1] and q[2]² q[0], as if q ⋅ q were constant."""
    return ybar[0] * np.array([q[1], q[0], 0]) + ybar[1] * np.array(
        [q[2] ** 2, 0, 2 * q[2] * q[0]]
    )


RULES = {
    "logdet, lower half doubled": (
        logdet, arg.spd(3, 3), "gradient",
        lambda a: 2 * np.tril(np.linalg.inv(a)) - np.diag(np.diag(np.linalg.inv(a))),
        "on the tangent space of symmetric matrices (a)",
    ),
    "angle": (angle, arg.unit(3), "vjp", angle_vjp,
              "on the tangent space of unit vectors (q)"),
    "entropy": (entropy, arg.simplex(5), "gradient", lambda p: -np.log(p),
                "on the tangent space of the simplex (p)"),
    "solved": (solved, arg.triangular(3, 3), "vjp", solved_vjp,
               "on the tangent space of lower triangular matrices (tri)"),
    "upper": (lambda u: np.triu(u) @ np.arange(1.0, 4), arg.upper(3, 3), "vjp",
              lambda ybar, u: np.outer(ybar, np.arange(1.0, 4)),
              "on the tangent space of upper triangular matrices (u)"),
    "spread": (spread, arg.sorted(5), "gradient", spread_gradient, ""),
    "root": (lambda x: np.sum(np.sqrt(x)), arg.positive(4), "gradient",
             lambda x: 0.5 / np.sqrt(x), ""),
    "arccos": (lambda x: np.sum(np.arccos(x)), arg.within(arg.randn(3) * 0.3, -1, 1),
               "gradient", lambda x: -1 / np.sqrt(1 - x * x), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_rule_right_on_the_tangent_space_passes(name):
    f, described, kind, rule, words = RULES[name]
    report = gradproof.check(f, (described,), **{kind: rule})
    assert report.verdict is Verdict.PASS, str(report)
    assert words in report.record.compared
    told = [note for note in report.record.notes if "tangent space" in note]
    assert bool(words) == bool(told)
    if words:
        path = words[words.index("(") + 1 : -1]
        kept = words[len("on the tangent space of ") : words.index(" (")]
        assert told == [
            f"{path} was moved along {kept} only, and its gradient compared on the "
            "tangent space"
        ]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_wrong_on_the_tangent_space_fails(name):
    f, described, kind, rule, _ = RULES[name]
    report = gradproof.check(
        f, (described,), **{kind: lambda *args: 1.02 * np.asarray(rule(*args))}
    )
    assert report.verdict is Verdict.FAIL, str(report)
    [finding] = [f for f in report.findings if f.severity == "error"]
    assert finding.slug == "wrong-factor"


def test_undeclared_the_same_rule_is_wrong():
    [q] = [d.array for d in draw([arg.unit(3)], {}, 0)]
    report = gradproof.check(angle, (q,), vjp=angle_vjp)
    assert report.verdict is Verdict.FAIL


def test_one_wrong_entry_of_a_symmetric_gradient_is_named():
    def rule(a):
        g = np.linalg.inv(a)
        g[2, 0] += 0.2
        return g

    report = gradproof.check(logdet, (arg.spd(3, 3),), gradient=rule)
    assert report.verdict is Verdict.FAIL
    wrong = report.jacobians["out", "a"].wrong.reshape(3, 3)
    assert np.argwhere(wrong).tolist() == [[0, 2], [2, 0]]


def test_float32_matrices():
    import torch

    class Logdet(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return torch.logdet(a)

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            inverse = torch.linalg.inv(a)
            return g * (2 * torch.tril(inverse) - torch.diag(torch.diag(inverse)))

    report = gradproof.check(Logdet, (arg.spd(4, 4, dtype="float32"),))
    assert report.verdict is Verdict.PASS, str(report)
    a = torch.tensor([[2.0, 0.5, 0.25], [0.5, 3.0, 0.75], [0.25, 0.75, 4.0]])
    given = gradproof.check(Logdet, (arg.symmetric(a.double()),))
    assert given.verdict is Verdict.PASS, str(given)


def test_a_large_set_is_compared_along_directions():
    def f(q):
        return np.tanh(q) * q[:, ::-1]

    def vjp(ybar, q):
        t = np.tanh(q)
        return ybar * (1 - t * t) * q[:, ::-1] + (ybar * t)[:, ::-1] + 3.0 * q

    right = gradproof.check(f, (arg.unit(300, 4),), vjp=vjp)
    assert right.verdict is Verdict.FAIL  # 3 q is no tangent, but not linear in ȳ
    linear = gradproof.check(
        f, (arg.unit(300, 4),), vjp=lambda y, q: vjp(y, q) - 3 * q + y.sum() * q
    )
    assert linear.verdict is Verdict.PASS, str(linear)
    assert "unit vectors" in linear.record.compared
    wrong = gradproof.check(
        f, (arg.unit(300, 4),), vjp=lambda y, q: 1.01 * (vjp(y, q) - 3 * q)
    )
    assert wrong.verdict is Verdict.FAIL
