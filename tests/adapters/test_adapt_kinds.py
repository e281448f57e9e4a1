"""What may be handed over, what its leaves are called, and what is refused and how."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.autograd import Function

from gradproof.adapters import adapt
from gradproof.errors import UsageError, UserCodeError


class Softplus(Function):
    """A right gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.logaddexp(x, torch.zeros_like(x))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x)


class Scale(Function):
    """New style, with a plain number."""

    @staticmethod
    def forward(x, k=2.0):
        return k * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.k, None


class Stack(Function):
    """Several tensors, several outputs; one of them an integer."""

    @staticmethod
    def forward(ctx, *ts):
        top, index = torch.stack(ts).max(0)
        ctx.mark_non_differentiable(index)
        ctx.n = len(ts)
        ctx.save_for_backward(index)
        return top, index

    @staticmethod
    def backward(ctx, g, _):
        (index,) = ctx.saved_tensors
        return tuple(g * (index == i) for i in range(ctx.n))


@torch.library.custom_op("gradproof_tests::sine", mutates_args=())
def sine(x: torch.Tensor, k: float) -> torch.Tensor:
    return k * torch.sin(x)


def _sine_backward(ctx, grad_output):
    return ctx.k * grad_output * torch.cos(ctx.saved_tensors[0]), None


def _sine_context(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.k = inputs[1]


sine.register_autograd(_sine_backward, setup_context=_sine_context)


def x(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def slope(rule, seed=0):
    """<ȳ, J u> by central differences, and <x̄, u> by the rule."""
    rng = np.random.default_rng(seed)
    primal, h = rule.primal, 1e-6
    u, ybar = primal.domain.draw(rng), primal.codomain.draw(rng)
    plus, minus = (primal.value(primal.point + s * h * u).value for s in (1, -1))
    measured = (plus - minus) @ ybar / (2 * h)
    return measured, rule.vjp(primal.point, ybar).value @ u


@pytest.mark.parametrize(
    ("thing", "inputs", "kwargs", "domain", "codomain"),
    [
        (Softplus, x(3), {}, ["x"], ["out"]),
        (Softplus.apply, (x(3),), {}, ["x"], ["out"]),
        (Scale, (x(2, 2), 3.0), {}, ["x"], ["out"]),
        (Scale.apply, (x(2, 2),), {}, ["x"], ["out"]),
        (Stack, (x(3), x(3, seed=1)), {}, ["ts[0]", "ts[1]"], ["out[0]"]),
        (sine, (x(3), 2.0), {}, ["x"], ["out"]),
        (torch.ops.gradproof_tests.sine, (x(3), 2.0), {}, ["x"], ["out"]),
        (torch.ops.gradproof_tests.sine.default, (x(3), 2.0), {}, ["x"], ["out"]),
        (lambda q: q.sin(), x(3), {}, ["q"], ["out"]),
        (functools.partial(torch.add, alpha=2), (x(2), x(2)), {}, ["inputs[0]", "inputs[1]"], ["out"]),
        (
            lambda q, cfg, scale=1: (q[0] * cfg["w"], {"y": q[1].sum(), "n": 3}, None),
            ([x(2), x(2, seed=1)], {"w": x(2), "mode": "max"}),
            {"scale": torch.tensor(2)},
            ["q[0]", "q[1]", "cfg['w']"],
            ["out[0]", "out[1]['y']"],
        ),
        (lambda a, *, b: a * b, x(2), {"b": x(2)}, ["a", "b"], ["out"]),
        (lambda d: d["a"] ** 2, {"a": x(2)}, {}, ["d['a']"], ["out"]),
        (lambda z: z * z.conj(), torch.complex(x(3), x(3, seed=1)), {}, ["z"], ["out"]),
        (torch.nn.Linear(3, 2, dtype=torch.float64), x(4, 3), {}, ["input", "weight", "bias"], ["out"]),
        (torch.nn.Embedding(5, 3, dtype=torch.float64), torch.tensor([1, 1]), {}, ["weight"], ["out"]),
        (lambda s: s.to_dense() ** 2, x(3, 4).relu().to_sparse(), {}, ["s"], ["out"]),
        (lambda s: s * 2, x(3, 4).relu().to_sparse(), {}, ["s"], ["out"]),
    ],
)  # fmt: skip
def test_leaves_have_names_and_the_gradient_is_the_measured_one(
    thing, inputs, kwargs, domain, codomain
):
    rule = adapt(thing, inputs, kwargs)
    assert [leaf.path for leaf in rule.primal.domain] == domain
    assert [leaf.path for leaf in rule.primal.codomain] == codomain
    measured, implied = slope(rule)
    assert implied == pytest.approx(measured, rel=1e-6, abs=1e-8)
    assert rule.differentiable


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_of_a_sparse_tensor_the_values_vary(layout):
    dense = x(3, 4).relu()
    given = (
        dense.to_sparse()
        if layout == "coo"
        else getattr(dense, f"to_sparse_{layout}")()
    )
    rule = adapt(lambda s: s.to_dense() ** 2, given)
    assert rule.primal.domain.size == int((dense != 0).sum())
    measured, implied = slope(rule)
    assert implied == pytest.approx(measured, rel=1e-6)


def test_a_wrong_gradient_is_handed_on_as_it_is():
    class Wrong(Softplus):
        @staticmethod
        def backward(ctx, grad_output):
            return 2 * Softplus.backward(ctx, grad_output)

    measured, implied = slope(adapt(Wrong, x(3)))
    assert implied == pytest.approx(2 * measured)


def test_module_parameters_are_leaves_by_name_and_tied_ones_are_one():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3, dtype=torch.float64))
            self.again = self.inner[0]
            self.frozen = torch.nn.Parameter(x(3), requires_grad=False)

        def forward(self, weight):
            return self.again(self.inner(weight)) + self.frozen

    rule = adapt(Tied(), x(2, 3))
    assert [a.path for a in rule.primal.domain] == [
        "weight", "inner.0.weight", "inner.0.bias",
    ]  # fmt: skip
    measured, implied = slope(rule)
    assert implied == pytest.approx(measured, rel=1e-6)


def test_a_parameter_named_like_an_input_is_told_apart():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(x(3))

        def forward(self, w):
            return w * self.w

    assert [a.path for a in adapt(Twice(), x(3)).primal.domain] == ["w", "self.w"]


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated")
def test_a_scripted_module_has_its_inputs_checked_and_is_kept():
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).double()
    scripted = torch.jit.script(net)
    rule = adapt(scripted, x(4, 3))
    assert [a.path for a in rule.primal.domain] == ["input"]
    assert rule.notes == (
        "the parameters were left out: those of a ScriptModule cannot be replaced",
    )
    measured, implied = slope(rule)
    assert implied == pytest.approx(measured, rel=1e-5)
    assert [int(b) for n, b in scripted.named_buffers() if "tracked" in n] == [0]


def test_only_tensors_that_require_grad_vary_where_one_does():
    rule = adapt(lambda a, b: a * b, (x(2).requires_grad_(), x(2)))
    assert [leaf.path for leaf in rule.primal.domain] == ["a"]


def test_named_tuples_keep_their_class_and_their_names():
    class Pair(NamedTuple):
        left: torch.Tensor
        right: torch.Tensor

    rule = adapt(lambda p: Pair(p.left * 2, p.right * p.left), (Pair(x(2), x(2)),))
    assert [a.path for a in rule.primal.domain] == ["p.left", "p.right"]
    assert [a.path for a in rule.primal.codomain] == ["out.left", "out.right"]


def test_precision_of_each_leaf_and_plain_numbers():
    rule = adapt(
        lambda a, b, eps, flag: (a.float() + b) * eps,
        (x(2, dtype=torch.bfloat16), x(2, dtype=torch.float32), 0.5, True),
    )
    assert [leaf.precision for leaf in rule.primal.domain] == ["bfloat16", "float32"]
    assert rule.scalars == (("eps", 0.5),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_numbers_go_in_and_out_exactly(dtype):
    rule = adapt(lambda a: a.clone(), x(50, dtype=dtype))
    point = rule.primal.domain.snap(np.linspace(-3, 3, 50))
    assert np.array_equal(rule.primal.value(point).value, point)


def test_strides_are_kept_and_shared_memory_is_not():
    seen = []

    def look(a):
        seen.append(a.stride())
        return a * 2

    rule = adapt(look, x(3, 4).t())
    rule.vjp(rule.primal.point, np.ones(12))
    assert set(seen) == {(1, 4)}
    assert rule.notes == ()
    seen.clear()
    rule = adapt(look, x(1, 4).expand(3, 4))
    rule.vjp(rule.primal.point, np.ones(12))
    assert set(seen) == {(4, 1)}
    assert rule.notes == (
        "a is expanded or overlaps itself in memory; it was copied to memory of its own",
    )
    assert adapt(look, x(6).unfold(0, 3, 1)).notes != ()


def test_custom_functions_inside_are_listed_and_a_single_one_is_the_source():
    rule = adapt(lambda a: Softplus.apply(a) * 2, x(3))
    assert rule.source.name == "Softplus"
    assert rule.source.kind == "autograd.Function"
    assert "grad_output * torch.sigmoid(x)" in rule.source.text
    assert rule.source.file == __file__
    rule = adapt(lambda a: Softplus.apply(a) * Scale.apply(a), x(3))
    assert [c.name for c in rule.custom] == ["Softplus", "Scale"]
    assert rule.source.kind == "function"
    assert adapt(torch.sin, x(3)).custom == ()


def test_custom_functions_inside_are_rules_of_their_own():
    def both(a, k):
        return Scale.apply(Softplus.apply(a), k) + sine(a * 3, 2.0) + Softplus.apply(a)

    first, second, third = adapt(both, (x(3), 1.5)).parts()
    assert [r.source.name for r in (first, second, third)] == [
        "Softplus", "Scale", "gradproof_tests::sine",
    ]  # fmt: skip
    assert np.array_equal(first.primal.point, x(3))
    assert third.primal.point == pytest.approx(3 * x(3).numpy())
    assert second.scalars == (("k", 1.5),)
    for rule in (first, second, third):
        measured, implied = slope(rule)
        assert implied == pytest.approx(measured, rel=1e-6)
        assert rule.parts() == ()
    assert adapt(torch.sin, x(3)).parts() == ()
    assert adapt(lambda a: a * 2, x(3), vjp=lambda g, a: 2 * g).parts() == ()


def test_an_operator_is_known_by_its_name_and_its_backward():
    rule = adapt(sine, (x(3), 2.0))
    assert rule.source.name == "gradproof_tests::sine"
    assert rule.source.backward == "_sine_backward"
    assert rule.source.forward == "sine"
    assert "torch.cos" in rule.source.text
    form = rule.inspect(rule.primal.point, np.ones(3)).form
    assert form.entered == ("gradproof_tests::sine",)
    assert form.expected_entry == "gradproof_tests::sine"
    assert [r.path for r in form.returned] == ["x", "k"]


def test_a_name_is_what_reports_call_it_and_the_backward_is_still_expected():
    rule = adapt(Softplus, x(3), name="my softplus")
    assert rule.source.name == "my softplus"
    form = rule.inspect(rule.primal.point, np.ones(3)).form
    assert form.expected_entry == "Softplus"
    assert form.entered == ("Softplus",)


# gradproof: allow[straight-through]
class Allowed(Softplus):
    # gradproof: allow[kink, inaccurate]
    pass


def test_what_a_comment_allows_is_read():
    source = adapt(Allowed, x(3)).source
    assert set(source.allow) == {"straight-through", "kink", "inaccurate"}
    assert adapt(Softplus, x(3)).source.allow == ()


def test_source_that_cannot_be_read_is_empty():
    space = {}
    exec("def f(a):\n    return a * 2", space)
    source = adapt(space["f"], x(3)).source
    assert (source.name, source.text, source.file) == ("f", "", "")


def test_no_graph_means_not_differentiable():
    assert not adapt(lambda a: torch.ones(3, dtype=a.dtype), x(3)).differentiable
    assert not adapt(lambda a: a.detach() * 2, x(3)).differentiable
    assert adapt(lambda a: a, x(3)).differentiable


def test_the_forward_may_write_on_its_inputs():
    def written(a):
        a.mul_(2)
        return a.sin()

    measured, implied = slope(adapt(written, x(3)))
    assert implied == pytest.approx(measured, rel=1e-6)


def test_a_function_that_needs_a_graph_is_asked_with_one():
    def force(a):
        if not a.requires_grad:
            raise RuntimeError("needs a graph")
        return torch.autograd.grad((a**3).sum(), a, create_graph=True)[0]

    rule = adapt(force, x(3))
    measured, implied = slope(rule)
    assert implied == pytest.approx(measured, rel=1e-6)
    assert rule.notes == (
        "the forward gives other values, or raises, under torch.no_grad(); "
        "differences were taken of what it gives in training",
    )
    rule = adapt(lambda a: a.sin() if torch.is_grad_enabled() else a, x(3))
    measured, implied = slope(rule)
    assert implied == pytest.approx(measured, rel=1e-6)


def test_a_failure_at_another_point_is_a_reply():
    def positive(a):
        if (a < 0).any():
            raise ValueError("must be positive")
        return a.sqrt() if a.numel() > 1 else a

    rule = adapt(positive, x(3).abs() + 0.1)
    reply = rule.primal.value(-rule.primal.point)
    assert reply.value is None
    assert (reply.failure.kind, reply.failure.message) == (
        "ValueError", "must be positive",
    )  # fmt: skip
    assert reply.failure.file == __file__
    assert "torch_rule.py" not in reply.failure.trace
    assert rule.vjp(-rule.primal.point, np.ones(3)).failure.kind == "ValueError"


def test_an_output_that_changes_shape_is_a_failure():
    rule = adapt(lambda a: a[a > 0], torch.tensor([1.0, 2.0, -1.0]))
    reply = rule.primal.value(np.array([1.0, -2.0, -1.0]))
    assert reply.failure.kind == "OutputChanged"
    assert reply.failure.message == "out has shape (1,) here but (2,) at the point"
    rule = adapt(lambda a: (a, a)[: 1 + int(a[0] > 0)], torch.tensor([1.0]))
    reply = rule.primal.value(np.array([-1.0]))
    assert reply.failure.message == (
        "1 floating-point output here but 2 floating-point outputs at the point"
    )
    rule = adapt(lambda a: a.double() if a[0] > 0 else a, torch.tensor([1.0]))
    assert rule.primal.value(np.array([-1.0])).failure.message == (
        "out has dtype torch.float32 here but torch.float64 at the point"
    )


class NoBackward(Function):
    @staticmethod
    def forward(ctx, a):
        return a


@pytest.mark.parametrize(
    ("thing", "inputs", "sentence"),
    [
        (
            NoBackward, x(2),
            "NoBackward has no backward, so there is no gradient to check; write a "
            "static method backward(ctx, grad_output).",
        ),
        (
            torch.nn.Linear, x(2),
            "Expected a module but got the class Linear; pass an instance of it, "
            "Linear(...).",
        ),
        (
            int, x(2),
            "Expected an autograd.Function but got the class int, which is none; pass "
            "a function, or derive int from torch.autograd.Function.",
        ),
        (
            3, x(2),
            "Expected a function, an autograd.Function or a module but got int (3), "
            "which cannot be called.",
        ),
        (
            torch.sin, torch.arange(3),
            "sin was given no floating-point tensor (inputs[0]: int64), so there is "
            "nothing to differentiate by; pass at least one float or complex tensor.",
        ),
        (
            Softplus, (),
            "Softplus was given no floating-point tensor (no arguments), so there is "
            "nothing to differentiate by; pass at least one float or complex tensor.",
        ),
        (
            torch.argmax, x(2),
            "argmax returned no floating-point tensor (out: int64), so there is "
            "nothing to differentiate.",
        ),
        (
            torch.is_tensor, x(2),
            "is_tensor returned bool where a tensor was expected; return the tensor "
            "whose gradient is to be checked.",
        ),
        (
            lambda a: (), x(2),
            "<lambda> returned no floating-point tensor (nothing at all), so there is "
            "nothing to differentiate.",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_in_a_sentence(thing, inputs, sentence):
    with pytest.raises(UsageError) as caught:
        adapt(thing, inputs)
    assert str(caught.value) == sentence


@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
def test_an_instance_of_a_function_is_refused():
    with pytest.raises(UsageError) as caught:
        adapt(Softplus(), x(2))
    assert str(caught.value) == (
        "Expected a gradient to check but got an instance of Softplus; pass the class "
        "itself (Softplus) or Softplus.apply."
    )


def test_a_forward_that_raises_shows_the_user_their_own_traceback():
    def broken(a):
        return a @ torch.ones(7, dtype=a.dtype)

    with pytest.raises(UserCodeError) as caught:
        adapt(broken, x(2))
    assert str(caught.value).startswith(
        "broken raised RuntimeError at the given inputs"
    )
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "return a @ torch.ones(7" in caught.value.trace
    assert "gradproof/adapters" not in caught.value.trace


def test_vjp_and_reference_and_surrogate_are_refused_in_sentences():
    cases = [
        ({"vjp": 3}, "Expected vjp= to be a function backward(grad_output, *inputs) "
         "but got int, which cannot be called."),
        ({"gradient": torch.sin}, "gradient= and jacobian= are for NumPy arrays but "
         "tensors were given; pass vjp=backward, called as "
         "backward(grad_output, *inputs)."),
        ({"vjp": torch.sin, "gradient": torch.sin}, "vjp= and gradient= were both "
         "given and one was expected; keep the one that is to be checked."),
        ({"reference": 3}, "Expected reference= to be a function of the same arguments "
         "but got int, which cannot be called."),
        ({"reference": torch.sum}, "reference=sum gives another output than the "
         "function under test: out has shape () here but (2,) at the point; it must "
         "return the same structure, shapes and dtypes."),
    ]  # fmt: skip
    for keywords, sentence in cases:
        with pytest.raises(UsageError) as caught:
            adapt(torch.sin, x(2), **keywords)
        assert str(caught.value) == sentence
    with pytest.raises(UsageError, match="surrogate=inverse raised RuntimeError"):
        adapt(torch.sin, x(2), surrogate=torch.inverse)
    with pytest.raises(UsageError) as caught:
        adapt(Softplus, x(2), vjp=torch.sin)
    assert str(caught.value) == (
        "vjp= goes with a plain forward function but got Softplus, which has a "
        "gradient of its own; leave vjp= out."
    )
    with pytest.raises(UsageError) as caught:
        adapt(3, x(2), vjp=torch.sin)
    assert str(caught.value) == (
        "Expected a forward function but got int, which cannot be called."
    )


def test_nothing_of_a_framework_in_sight():
    with pytest.raises(UsageError) as caught:
        adapt(np.sin, np.ones(3))
    assert str(caught.value) == (
        "No PyTorch tensor is among the inputs, and a NumPy function carries no gradient "
        "of its own; pass tensors, or the hand-written gradient as vjp=, gradient= or "
        "jacobian=."
    )
    with pytest.raises(UsageError, match="got int, which cannot be called"):
        adapt(3, 4)
