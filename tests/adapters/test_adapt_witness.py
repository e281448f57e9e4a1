"""Other answers: the body, a reference; and rules of their own: jvp, second order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from gradproof.adapters import adapt


def x(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def lone(rule, name):
    found = [w for w in rule.witnesses() if w.name == name]
    return found[0] if found else None


def answers(rule, name, seed=0):
    """x̄ of the rule and of its witness."""
    ybar = rule.primal.codomain.draw(np.random.default_rng(seed))
    reply = lone(rule, name).vjp(rule.primal.point, ybar)
    assert reply.failure is None
    return rule.vjp(rule.primal.point, ybar).value, reply.value


class Cube(Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a**3

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return 3 * a**2 * g


class WrongCube(Cube):
    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return 2 * a**2 * g


class NewStyle(Function):
    @staticmethod
    def forward(a, k=3):
        return a**k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return ctx.k * a ** (ctx.k - 1) * g, None


class InPlace(Cube):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a.clone())
        ctx.mark_dirty(a)
        return a.pow_(3)


class Nested(Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return WrongCube.apply(a)

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return 3 * a**2 * g


@torch.library.custom_op("gradproof_tests::cube", mutates_args=())
def cube(a: torch.Tensor) -> torch.Tensor:
    return a**3


def _context(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


cube.register_autograd(
    lambda ctx, g: WrongCube.backward(ctx, g), setup_context=_context
)


@pytest.mark.parametrize("thing", [Cube, NewStyle, InPlace, Nested])
def test_the_body_agrees_with_a_right_rule(thing):
    rule = adapt(thing, x(4))
    got, witness = answers(rule, "body")
    assert witness == pytest.approx(got, rel=1e-14)
    assert lone(rule, "body").precision == "float64"
    assert lone(rule, "body").cuts == ()


@pytest.mark.parametrize("thing", [WrongCube, cube, lambda a: WrongCube.apply(a) * 1])
def test_the_body_does_not_repeat_a_wrong_rule(thing):
    got, witness = answers(adapt(thing, x(4)), "body")
    assert witness == pytest.approx(1.5 * got, rel=1e-14)


def test_the_body_of_a_raw_pair():
    rule = adapt(lambda a: a**3, x(4), vjp=lambda g, a: 2 * a**2 * g)
    got, witness = answers(rule, "body")
    assert witness == pytest.approx(1.5 * got, rel=1e-14)


def test_the_body_of_a_narrow_rule_is_seen_in_float64():
    rule = adapt(Cube, x(4, dtype=torch.float32))
    got, witness = answers(rule, "body")
    assert lone(rule, "body").precision == "float64"
    truth = (
        3 * rule.primal.point**2 * rule.primal.codomain.draw(np.random.default_rng(0))
    )
    assert witness == pytest.approx(truth, rel=1e-14)
    assert got != pytest.approx(truth, rel=1e-10)


def test_without_a_custom_gradient_there_is_no_second_opinion():
    assert adapt(torch.sin, x(3)).witnesses() == ()


class Cut(Cube):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return torch.from_numpy(a.detach().numpy() ** 3)


class PartlyCut(Cube):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a**2 * a.detach()


def test_a_body_that_leaves_the_graph_is_no_witness():
    assert lone(adapt(Cut, x(3)), "body") is None


def test_a_body_with_a_cut_says_where():
    [cut] = lone(adapt(PartlyCut, x(3)), "body").cuts
    assert cut.startswith("detach (test_adapt_witness.py:")


def test_a_body_that_is_another_function_in_float64_is_seen_as_it_is():
    class ByDtype(Cube):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a**3 if a.dtype is torch.float32 else a.sin()

    rule = adapt(ByDtype, x(3, dtype=torch.float32))
    got, witness = answers(rule, "body")
    assert lone(rule, "body").precision == "float32"
    assert witness == pytest.approx(got, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_reference_answers_in_float64(dtype):
    rule = adapt(WrongCube, x(4, dtype=dtype), reference=lambda a: a**3)
    got, witness = answers(rule, "reference")
    assert lone(rule, "reference").precision == "float64"
    assert witness == pytest.approx(1.5 * got, rel=1e-5)


def test_a_reference_that_is_bound_to_a_precision_answers_there():
    def narrow(a):
        assert a.dtype is torch.float32
        return a**3

    rule = adapt(Cube, x(4, dtype=torch.float32), reference=narrow)
    assert lone(rule, "reference").precision == "float32"


def test_a_reference_without_a_gradient_is_left_out():
    assert (
        lone(adapt(Cube, x(4), reference=lambda a: (a**3).detach()), "reference")
        is None
    )


def test_a_reference_does_not_know_the_parameters_of_a_module():
    net = torch.nn.Linear(3, 2, dtype=torch.float64)
    rule = adapt(net, x(4, 3), reference=lambda a: a @ net.weight.T + net.bias)
    got, witness = answers(rule, "reference")
    assert witness[:12] == pytest.approx(got[:12])
    assert np.isnan(witness[12:]).all()


def test_a_surrogate_is_the_function_that_differences_are_taken_of():
    class Round(Function):
        @staticmethod
        def forward(ctx, a):
            return a.round()

        @staticmethod
        def backward(ctx, g):
            return g

    rule = adapt(Round, x(4), surrogate=lambda a: a)
    p = rule.primal.point
    assert np.array_equal(rule.primal.value(p).value, p)
    assert np.array_equal(rule.vjp(p, np.ones(4)).value, np.ones(4))
    assert rule.witnesses() == ()


# Forward mode.


class WithJvp(Function):
    """y = k a b; ``factor`` plants a mistake in the tangent."""

    factor = 1.0

    @staticmethod
    def forward(ctx, a, b, k):
        ctx.save_for_backward(a, b)
        ctx.save_for_forward(a, b)
        ctx.k = k
        return k * a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return ctx.k * b * g, ctx.k * a * g, None

    @staticmethod
    def jvp(ctx, da, db, _):
        a, b = ctx.saved_tensors
        return WithJvp.factor * ctx.k * (da * b + a * db)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_jvp_is_the_rules_own(factor, monkeypatch):
    monkeypatch.setattr(WithJvp, "factor", factor)
    rule = adapt(WithJvp, (x(3), x(3, seed=1), 0.5))
    u = rule.primal.domain.draw(np.random.default_rng(0))
    ybar = rule.primal.codomain.draw(np.random.default_rng(1))
    tangent = rule.jvp(rule.primal.point, u).value
    pulled = rule.vjp(rule.primal.point, ybar).value
    assert tangent @ ybar == pytest.approx(factor * (pulled @ u))


def test_without_a_jvp_there_is_none():
    assert adapt(Cube, x(3)).jvp(np.ones(3), np.ones(3)) is None
    assert adapt(torch.sin, x(3)).jvp(np.ones(3), np.ones(3)) is None
    mixed = adapt(lambda a: WithJvp.apply(Cube.apply(a), a, 1.0), x(3))
    assert mixed.jvp(np.ones(3), np.ones(3)) is None


def test_a_jvp_that_raises_is_a_failure():
    class Raises(WithJvp):
        @staticmethod
        def jvp(ctx, *tangents):
            raise ValueError("as asked")

    reply = adapt(Raises, (x(3), x(3), 1.0)).jvp(np.ones(6), np.ones(6))
    assert (reply.value, reply.failure.message) == (None, "as asked")


# Second order.


def second_slopes(rule):
    """The pullback of the backward: measured by differences, and by PyTorch."""
    second = rule.derived("second order")
    primal, h = second.primal, 1e-6
    rng = np.random.default_rng(4)
    u, w = primal.domain.draw(rng), primal.codomain.draw(rng)
    plus, minus = (primal.value(primal.point + s * h * u).value for s in (1, -1))
    return (plus - minus) @ w / (2 * h), second.vjp(primal.point, w).value @ u


def test_second_order_is_a_rule_in_inputs_and_cotangents():
    rule = adapt(Cube, x(3))
    second = rule.derived("second order")
    assert [leaf.path for leaf in second.primal.domain] == ["a", "grad_output"]
    assert [leaf.path for leaf in second.primal.codomain] == ["grad of a"]
    measured, implied = second_slopes(rule)
    assert implied == pytest.approx(measured, rel=1e-6)
    assert second.source == rule.source
    assert rule.second_order_note == ""
    assert rule.derived("third order") is None


def test_a_lost_second_derivative_is_seen():
    class Detached(Cube):
        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return 3 * a.detach() ** 2 * g

    measured, implied = second_slopes(adapt(Detached, x(3)))
    assert implied != pytest.approx(measured, rel=1e-2)


def test_several_outputs_have_cotangents_of_their_own():
    rule = adapt(lambda a, b: (a * b, {"s": a + b}), (x(2), x(2, seed=1)))
    second = rule.derived("second order")
    assert [leaf.path for leaf in second.primal.domain] == [
        "a", "b", "grad_output[0]", "grad_output[1]['s']",
    ]  # fmt: skip
    measured, implied = second_slopes(rule)
    assert implied == pytest.approx(measured, rel=1e-6)


def test_a_refusal_is_said():
    class Once(Cube):
        backward = staticmethod(once_differentiable(Cube.backward))

    rule = adapt(Once, x(3))
    assert rule.derived("second order") is None
    assert rule.second_order_note == (
        "no second order: the backward is marked once_differentiable"
    )

    class Raises(Cube):
        @staticmethod
        def backward(ctx, g):
            return torch.from_numpy(
                3 * ctx.saved_tensors[0].detach().numpy() ** 2 * g.numpy()
            )

    rule = adapt(Raises, x(3))
    assert rule.derived("second order") is None
    assert rule.second_order_note.startswith(
        "no second order: RuntimeError: Can't call numpy()"
    )


# Raw pairs.


PAIRS = {
    "one": (lambda a: a**2, (x(3),), {}, lambda g, a: 2 * a * g),
    "tuple": (lambda a, b: a * b, (x(3), x(3)), {}, lambda g, a, b: (g * b, g * a)),
    "list": (lambda a, b: a * b, (x(3), x(3)), {}, lambda g, a, b: [g * b, g * a]),
    "dict": (lambda a, b: a * b, (x(3), x(3)), {}, lambda g, a, b: {"b": g * a, "a": g * b}),
    "number": (lambda a, k: a * k, (x(3), 2.0), {}, lambda g, a, k: g * k),
    "number, None": (lambda a, k: a * k, (x(3), 2.0), {}, lambda g, a, k: (g * k, None)),
    "nested": (lambda p: p[0] * p[1], ([x(3), x(3)],), {}, lambda g, p: (g * p[1], g * p[0])),
    "keyword": (lambda a, *, b: a * b, (x(3),), {"b": x(3)}, lambda g, a, *, b: (g * b, g * a)),
    "outputs": (
        lambda a: {"s": a.sum(), "t": (a * 2, 3)}, (x(3),), {},
        lambda g, a: g["s"] * torch.ones_like(a) + 2 * g["t"][0],
    ),
    "index": (
        lambda a, i: a[i], (x(3), torch.tensor([1, 1])), {},
        lambda g, a, i: torch.zeros_like(a).index_add(0, i, g),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_raw_pair_is_a_rule(name):
    forward, inputs, kwargs, backward = PAIRS[name]
    rule = adapt(forward, inputs, kwargs, vjp=backward, name="pair")
    ybar = rule.primal.codomain.draw(np.random.default_rng(0))
    truth = adapt(forward, inputs, kwargs).vjp(rule.primal.point, ybar).value
    reply = rule.inspect(rule.primal.point, ybar)
    assert reply.value == pytest.approx(truth)
    assert reply.form.entered == ("pair",)
    assert reply.form.expected_entry == "pair"
    assert reply.form.arity is None
    assert rule.source.kind == "pair"
    assert rule.source.name == "pair"
    assert [c.name for c in rule.custom] == ["pair"]


def test_a_wrong_pair_is_handed_on_and_shows_its_form():
    rule = adapt(lambda a, b: a + b, (x(2, 3), x(3)), vjp=lambda g, a, b: (g, 2 * g))
    reply = rule.inspect(rule.primal.point, np.ones(6))
    assert [r.shape for r in reply.form.returned] == [(2, 3), (2, 3)]
    assert [r.expected_shape for r in reply.form.returned] == [(2, 3), (3,)]
    assert reply.value == pytest.approx([1] * 6 + [4] * 3)
    rule = adapt(lambda a, b: a + b, (x(3), x(3)), vjp=lambda g, a, b: (g,))
    reply = rule.inspect(rule.primal.point, np.ones(3))
    assert reply.form.arity == (1, 2)
    assert "incorrect number of gradients" in reply.failure.message


def test_the_source_of_a_pair_is_its_backward():
    def twice(a):
        return 2 * a

    def pull_twice(g, a):
        return 2 * g

    source = adapt(twice, x(3), vjp=pull_twice).source
    assert (source.name, source.forward, source.backward) == (
        "twice",
        "twice",
        "pull_twice",
    )
    assert "return 2 * g" in source.text
