"""NumPy pairs: arguments, derivatives in three forms, ways, effects."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gradproof.adapters import adapt
from gradproof.errors import UsageError, UserCodeError


def a(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def slope(rule, h=1e-6):
    """<ȳ, J u> by differences, and <x̄, u> by the rule."""
    rng = np.random.default_rng(3)
    primal = rule.primal
    u, ybar = primal.domain.draw(rng), primal.codomain.draw(rng)
    plus, minus = (primal.value(primal.point + s * h * u).value for s in (1, -1))
    return (plus - minus) @ ybar / (2 * h), rule.vjp(primal.point, ybar).value @ u


RIGHT = {
    "one": (lambda x: np.sin(x), a(3), {}, {"vjp": lambda g, x: g * np.cos(x)}, ["x"]),
    "two": (
        lambda x, y: x @ y, (a(2, 3), a(3)), {},
        {"vjp": lambda g, x, y: (np.outer(g, y), x.T @ g)}, ["x", "y"],
    ),
    "dict": (
        lambda x, y: x * y, (a(3), a(3)), {},
        {"vjp": lambda g, x, y: {"y": g * x, "x": g * y}}, ["x", "y"],
    ),
    "nested": (
        lambda p: p["u"] * p["v"], {"u": a(3), "v": a(3)}, {},
        {"vjp": lambda g, p: {"p": {"u": g * p["v"], "v": g * p["u"]}}},
        ["p['u']", "p['v']"],
    ),
    "number": (lambda x, k: k * x, (a(3), 2.0), {}, {"vjp": lambda g, x, k: k * g}, ["x"]),
    "number, None": (
        lambda x, k: k * x, (a(3), 2.0), {}, {"vjp": lambda g, x, k: (k * g, None)}, ["x"],
    ),
    "index": (
        lambda x, i: x[i], (a(3), np.array([1, 1])), {},
        {"vjp": lambda g, x, i: np.bincount(i, g, 3)}, ["x"],
    ),
    "keyword": (
        lambda x, *, y: x * y, (a(3),), {"y": a(3)},
        {"vjp": lambda g, x, *, y: (g * y, g * x)}, ["x", "y"],
    ),
    "outputs": (
        lambda x: (x.sum(), {"s": 2 * x, "n": 3}), a(3), {},
        {"vjp": lambda g, x: g[0] + 2 * g[1]["s"]}, ["x"],
    ),
    "plain floats": (
        lambda x, y: x * y, (1.5, 2.5), {}, {"vjp": lambda g, x, y: (g * y, g * x)},
        ["x", "y"],
    ),
    "complex": (
        lambda z: z * z, a(3) + 1j * a(3, seed=1), {},
        {"vjp": lambda g, z: g * np.conj(2 * z)}, ["z"],
    ),
    "complex to real": (
        lambda z: np.abs(z) ** 2, a(3) + 1j * a(3, seed=1), {},
        {"vjp": lambda g, z: 2 * g * z}, ["z"],
    ),
    "gradient": (
        lambda x, y: (x * y).sum(), (a(3), a(3)), {},
        {"gradient": lambda x, y: (y, x)}, ["x", "y"],
    ),
    "jacobian": (
        lambda x: x**2, a(3), {}, {"jacobian": lambda x: np.diag(2 * x)}, ["x"],
    ),
    "jacobian of matrices": (
        lambda x: x[0] * x[1], a(2, 3), {},
        {"jacobian": lambda x: np.hstack([np.diag(x[1]), np.diag(x[0])])}, ["x"],
    ),
    "jacobian, all columns": (
        lambda x, y: x + 2 * y, (a(3), a(3)), {},
        {"jacobian": lambda x, y: np.hstack([np.eye(3), 2 * np.eye(3)])}, ["x", "y"],
    ),
    "jacobian, one each": (
        lambda x, y: x + 2 * y, (a(3), a(3)), {},
        {"jacobian": lambda x, y: (np.eye(3), 2 * np.eye(3))}, ["x", "y"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_pair_is_a_rule(name):
    forward, inputs, kwargs, half, paths = RIGHT[name]
    rule = adapt(forward, inputs, kwargs, **half, name="pair")
    assert [leaf.path for leaf in rule.primal.domain] == paths
    measured, implied = slope(rule)
    assert implied == pytest.approx(measured, rel=1e-6, abs=1e-8)
    assert rule.source.kind == "pair"
    reply = rule.inspect(rule.primal.point, np.ones(rule.primal.codomain.size))
    assert reply.effects == ()
    assert reply.form.entered == ("pair",)
    assert all(
        r.shape == r.expected_shape for r in reply.form.returned if not r.is_none
    )


@pytest.mark.parametrize("name", RIGHT)
def test_every_way_gives_the_same_answer_for_a_right_pair(name):
    forward, inputs, kwargs, half, _ = RIGHT[name]
    rule = adapt(forward, inputs, kwargs, **half)
    ybar = rule.primal.codomain.draw(np.random.default_rng(1))
    plain = rule.vjp(rule.primal.point, ybar).value
    for way in rule.ways():
        x, y = way.place(rule.primal.point, ybar)
        reply = rule.vjp(x, y, way)
        assert reply.failure is None
        assert reply.value == pytest.approx(plain, rel=1e-12, abs=1e-14)


def raw(array):
    """What a kernel sees that takes its argument for packed, from where memory begins."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner.ravel(order="K")[: array.size].reshape(array.shape)


_STATE = {}


def _remember(x):
    _STATE["x"] = x.copy()
    return x**2


_BUFFER = np.zeros(3)


def _into_buffer(g, x):
    np.multiply(g, 2 * x, out=_BUFFER)
    return _BUFFER


WRONG = {
    "packed grad_output": (lambda x: 2 * x, a(2, 3), lambda g, x: 2 * raw(g), {
        "grad_output sliced with step 2", "grad_output with a negative stride",
        "grad_output in column-major order",
    }),
    "packed input": (lambda x: x**2, a(2, 3), lambda g, x: 2 * g * raw(x), {
        "inputs sliced with step 2", "inputs with a negative stride",
        "inputs in column-major order",
    }),
    "state": (_remember, a(3), lambda g, x: 2 * g * _STATE["x"],
              {"after a forward at another point"}),
    "buffer": (lambda x: x**2, a(3), _into_buffer,
               {"first answer kept while the second is made"}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_each_way_catches_its_mistake_and_no_other_does(name):
    forward, inputs, backward, caught = WRONG[name]
    rule = adapt(forward, inputs, vjp=backward)
    ybar = rule.primal.codomain.draw(np.random.default_rng(1))
    plain = rule.vjp(rule.primal.point, ybar).value.copy()
    differ = set()
    for way in rule.ways():
        value = rule.vjp(rule.primal.point, ybar, way).value
        if not np.allclose(value, plain):
            differ.add(way.name)
    assert differ == caught
    slug = {"state": "stale-state", "buffer": "reused-buffer"}.get(
        name, "layout-assumed"
    )
    assert {w.slug for w in rule.ways() if w.name in caught} == {slug}


def _writes_cotangent(g, x):
    g *= 2
    return g


def _writes_input(g, x):
    out = 2 * g
    x[1:] = 0
    return out


def _draws(g, x):
    return 2 * g + 0 * np.random.rand()  # noqa: NPY002


def _forward_writes(x):
    out = 2 * x
    x[0] = 0
    return out


@pytest.mark.parametrize(
    ("forward", "backward", "effect"),
    [
        (lambda x: 2 * x, _writes_cotangent, ("mutated-cotangent", "grad_output", "3 of 3 entries changed")),
        (lambda x: 2 * x, _writes_input, ("mutated-input", "x", "2 of 3 entries changed")),
        (lambda x: 2 * x, _draws, ("draws-in-backward", "backward", "draws from numpy")),
        (_forward_writes, lambda g, x: 2 * g, ("mutated-input", "x", "1 of 3 entries changed")),
    ],
    ids=["cotangent", "input", "draws", "forward"],
)  # fmt: skip
def test_each_effect_is_seen(forward, backward, effect):
    rule = adapt(forward, a(3), vjp=backward)
    [seen] = rule.inspect(rule.primal.point, np.ones(3)).effects
    assert (seen.slug, seen.subject, seen.detail) == effect


def test_the_users_arrays_and_generators_are_as_before():
    generator, python = np.random.default_rng(1), random.Random(2)

    def noisy(x, fixed, gen):
        out = x * (gen.random() + python.random() + np.random.rand() + random.random())  # noqa: NPY002
        x[:] = 0
        fixed[:] = 0
        return out

    x, fixed = a(3), np.arange(3)
    kept = x.copy(), fixed.copy()
    before = random.getstate(), generator.bit_generator.state, python.getstate()
    rule = adapt(noisy, (x, fixed, generator), vjp=lambda g, x, fixed, gen: g)
    values = [rule.primal.value(rule.primal.point).value for _ in range(2)]
    rule.inspect(rule.primal.point, np.ones(3))
    assert np.array_equal(x, kept[0])
    assert np.array_equal(fixed, kept[1])
    assert random.getstate() == before[0]
    assert generator.bit_generator.state == before[1]
    assert python.getstate() == before[2]
    assert np.array_equal(*values)


def test_the_numpy_generator_is_put_back_also_by_an_exception():
    def raises(g, x):
        np.random.rand()  # noqa: NPY002
        raise ValueError("as asked")

    rule = adapt(lambda x: x * np.random.rand(), a(3), vjp=raises)  # noqa: NPY002
    before = str(np.random.get_state())  # noqa: NPY002
    reply = rule.vjp(rule.primal.point, np.ones(3))
    first, second = (rule.primal.value(rule.primal.point).value for _ in range(2))
    assert str(np.random.get_state()) == before  # noqa: NPY002
    assert reply.failure.message == "as asked"
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda g, x, y: (g,), "pull returned 1 gradient for 2 inputs"),
        (lambda g, x, y: (g, g, g), "pull returned 3 gradients for 2 inputs"),
        (
            lambda g, x, y: (g, g[:2]),
            "pull returned shape (2,) for y, which has shape (3,)",
        ),
    ],
    ids=["few", "many", "shape"],
)
def test_gradients_that_do_not_fit_are_a_failure(backward, message):
    backward.__name__ = "pull"
    rule = adapt(lambda x, y: x + y, (a(3), a(3)), vjp=backward)
    for ask in (rule.vjp, rule.inspect):
        failure = ask(rule.primal.point, np.ones(3)).failure
        assert (failure.kind, failure.message) == ("ShapeError", message)


def test_a_gradient_of_another_shape_and_dtype_is_seen():
    rule = adapt(lambda x: x * 2, a(3), vjp=lambda g, x: np.float32(2 * g)[None])
    reply = rule.inspect(rule.primal.point, np.ones(3))
    [got] = reply.form.returned
    assert (got.shape, got.expected_shape) == ((1, 3), (3,))
    assert (got.dtype, got.expected_dtype) == ("float32", "float64")
    assert np.array_equal(reply.value, [2, 2, 2])


def test_none_counts_as_zeros():
    rule = adapt(lambda x, y: x + 0 * y, (a(3), a(3)), vjp=lambda g, x, y: (g, None))
    reply = rule.inspect(rule.primal.point, np.ones(3))
    assert reply.form.unused == ("y",)
    assert np.array_equal(reply.value, [1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_narrow_arrays_stay_narrow_and_are_lifted(dtype):
    seen = []

    def forward(x):
        seen.append(x.dtype.name)
        return x * x

    rule = adapt(forward, a(3, dtype=dtype), vjp=lambda g, x: 2 * g * x)
    assert rule.primal.domain.leaves[0].precision == dtype
    assert set(seen) == {dtype}
    wide = rule.primal.lifted()
    assert wide.codomain.leaves[0].precision == "float64"
    assert np.array_equal(wide.value(wide.point).value, rule.primal.point**2)
    other = rule.in_precision("float64")
    assert other.vjp(rule.primal.point, np.ones(3)).value == pytest.approx(
        2 * rule.primal.point
    )
    assert rule.in_precision("bfloat16") is None
    assert adapt(forward, a(3), vjp=lambda g, x: g).primal.lifted() is None


def test_order_of_memory_is_kept_and_broadcast_arrays_are_copied():
    seen = []

    def forward(x):
        seen.append((x.flags.f_contiguous, x.flags.writeable))
        return x * 2

    adapt(forward, np.asfortranarray(a(2, 3)), vjp=lambda g, x: 2 * g)
    assert seen == [(True, True)]
    rule = adapt(forward, np.broadcast_to(a(3), (2, 3)), vjp=lambda g, x: 2 * g)
    assert rule.notes == (
        "x is broadcast or overlaps itself in memory; it was copied to memory of its own",
    )


def test_the_complex_step_is_a_witness_where_it_works():
    rule = adapt(lambda x: np.exp(x) * x, a(4), vjp=lambda g, x: g * np.exp(x))
    [witness] = rule.witnesses()
    assert witness.name == "complex step"
    p = rule.primal.point
    assert witness.vjp(p, np.ones(4)).value == pytest.approx(
        np.exp(p) * (1 + p), rel=1e-14
    )
    rule = adapt(lambda x: np.maximum(x.real, 0), a(4), vjp=lambda g, x: g)
    assert rule.witnesses() == ()


def test_a_surrogate_and_a_reference():
    rule = adapt(
        np.round, a(3), vjp=lambda g, x: g, surrogate=lambda x: x, reference=np.round
    )
    p = rule.primal.point
    assert np.array_equal(rule.primal.value(p).value, p)
    assert rule.notes == ()
    plain = rule.reference()
    assert np.array_equal(plain.exact.value(p).value, np.round(p))
    assert plain.vjp is None
    assert plain.exact_vjp is None
    assert np.array_equal(
        rule.in_precision("float32").primal.value(p).value, np.float32(p)
    )


def test_reset_comes_before_every_forward():
    calls = []
    rule = adapt(np.sin, a(3), vjp=lambda g, x: g, reset=lambda: calls.append(1))
    n = len(calls)
    rule.primal.value(rule.primal.point)
    rule.vjp(rule.primal.point, np.ones(3))
    assert len(calls) == n + 2


def test_an_output_that_changes_is_a_failure():
    rule = adapt(lambda x: x[x > 0], np.array([1.0, 2.0]), vjp=lambda g, x: g)
    failure = rule.primal.value(np.array([1.0, -1.0])).failure
    assert failure.message == "out has shape (1,) here but (2,) at the point"
    rule = adapt(lambda x: (x, x)[: 1 + int(x[0] > 0)], np.ones(1), vjp=lambda g, x: g)
    assert rule.primal.value(-np.ones(1)).failure.message == (
        "1 floating-point output here but 2 floating-point outputs at the point"
    )


@pytest.mark.parametrize(
    ("thing", "inputs", "half", "sentence"),
    [
        (np.sin, np.arange(3), {"vjp": np.sin}, "sin was given no floating-point array "
         "(x: ndarray), so there is nothing to differentiate by; pass at least one "
         "float or complex array."),
        (np.argmax, a(3), {"vjp": np.sin}, "argmax returned int64 where an array of "
         "floating-point numbers was expected; return the array whose gradient is to be "
         "checked."),
        (np.sin, a(3), {"gradient": np.cos}, "gradient= is for a function with one "
         "output number but sin gives shape (3,); pass vjp= or jacobian=."),
        (3, a(3), {"vjp": np.sin}, "Expected a forward function that can be called but "
         "got int."),
        (np.sin, a(3), {"vjp": 3}, "Expected vjp= that can be called but got int."),
    ],
    ids=["int", "argmax", "gradient", "forward", "vjp"],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_in_a_sentence(thing, inputs, half, sentence):
    with pytest.raises(UsageError) as caught:
        adapt(thing, inputs, **half)
    assert str(caught.value) == sentence


def test_other_refusals():
    def broken(x):
        return x / (1 // 0)

    sentence = "broken raised ZeroDivisionError at the given inputs"
    with pytest.raises(UserCodeError, match=sentence):
        adapt(broken, a(3), vjp=np.sin)
    with pytest.raises(
        UsageError, match="surrogate= gives another output than sin; it must"
    ):
        adapt(np.sin, a(3), vjp=np.cos, surrogate=np.sum)
    rule = adapt(np.sin, a(3), jacobian=lambda x: np.eye(4))
    assert rule.vjp(rule.primal.point, np.ones(3)).failure.message == (
        "jacobian has shape (4, 4) for x but (3, 3) was expected: (outputs, inputs)"
    )
    rule = adapt(np.add, (a(3), a(3)), jacobian=lambda *xs: np.eye(3))
    assert rule.vjp(rule.primal.point, np.ones(3)).failure.message == (
        "jacobian has 3 columns but the inputs have 6 entries"
    )
