"""The same rule in other precisions, and with its own casts lifted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import Function

from gradproof.adapters import adapt


def x(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def rms(a, w):
    """Computes in float32 whatever it is given."""
    wide = a.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * w).to(
        a.dtype
    )


def exact(a, w):
    return a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6) * w


CASTS = {
    "float()": lambda a: a.float() * 2,
    "half()": lambda a: a.half() * 2,
    "bfloat16()": lambda a: a.bfloat16() * 2,
    "to(dtype)": lambda a: a.to(torch.float32) * 2,
    "to(dtype=)": lambda a: a.to(dtype=torch.float16) * 2,
    "to(device, dtype)": lambda a: a.to("cpu", torch.float32) * 2,
    "to(other)": lambda a: a.to(torch.ones(1, dtype=torch.float32)) * 2,
    "type_as": lambda a: a.type_as(torch.ones(1, dtype=torch.float32)) * 2,
    "type(str)": lambda a: a.type("torch.FloatTensor") * 2,
    "type(dtype)": lambda a: a.type(torch.float32) * 2,
    "softmax(dtype=)": lambda a: torch.softmax(a, -1, dtype=torch.float32),
    "sum(dtype=)": lambda a: a.sum(dtype=torch.float32),
    "zeros(dtype=)": lambda a: torch.zeros(3, dtype=torch.float32).copy_(a) * 2,
    "zeros()": lambda a: torch.zeros(3).copy_(a.float()) * 2,
    "empty_like": lambda a: torch.empty_like(a, dtype=torch.float16).copy_(a) * 2,
}


@pytest.mark.parametrize("cast", CASTS)
def test_each_cast_is_lifted(cast):
    call = CASTS[cast]
    rule = adapt(lambda a: call(a).double(), x(3))
    wide = rule.forward.lifted()
    point = rule.primal.point
    truth = {"softmax(dtype=)": lambda p: np.exp(p) / np.exp(p).sum(),
             "sum(dtype=)": np.sum}.get(cast, lambda p: 2 * p)(point)  # fmt: skip
    assert wide.value(point).value == pytest.approx(truth, rel=1e-14)
    assert rule.primal.value(point).value != pytest.approx(truth, rel=1e-10)


def test_a_float64_function_without_casts_has_nothing_to_lift():
    assert adapt(torch.sin, x(3)).forward.lifted() is None


def test_lifting_gives_the_derivative_that_casts_hide():
    rule = adapt(rms, (x(2, 8), x(8, seed=1)))
    wide, point = rule.forward.lifted(), rule.primal.point
    u = rule.primal.domain.draw(np.random.default_rng(0))
    truth = adapt(exact, (x(2, 8), x(8, seed=1))).primal

    def slope(primal):
        h = 1e-6
        gap = primal.value(point + h * u).value - primal.value(point - h * u).value
        return gap / (2 * h)

    assert slope(wide) == pytest.approx(slope(truth), rel=1e-7)
    assert slope(rule.primal) != pytest.approx(slope(truth), rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_narrow_inputs_are_lifted_at_the_same_points(dtype):
    rule = adapt(rms, (x(2, 8, dtype=dtype), x(8, dtype=dtype, seed=1)))
    wide = rule.forward.lifted()
    assert {leaf.precision for leaf in wide.domain} == {"float64"}
    assert {leaf.precision for leaf in wide.codomain} == {"float64"}
    assert np.array_equal(wide.point, rule.primal.point)
    native, value = rule.primal.value(wide.point).value, wide.value(wide.point).value
    assert value == pytest.approx(native, rel=16 * rule.primal.domain.unit)
    truth = adapt(
        exact, (x(2, 8, dtype=dtype).double(), x(8, dtype=dtype, seed=1).double())
    )
    assert value == pytest.approx(truth.primal.value(wide.point).value, rel=1e-13)


def test_fixed_tensors_parameters_and_buffers_are_lifted():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)
            self.register_buffer("scale", torch.tensor(0.1))
            self.shift = torch.tensor(0.3)

        def forward(self, a, mask):
            return self.linear(a * mask) * self.scale + self.shift

    net = Net()
    rule = adapt(net, (x(4, 3, dtype=torch.float32).requires_grad_(), torch.ones(3)))
    wide = rule.forward.lifted()
    value = wide.value(wide.point).value
    assert value == pytest.approx(rule.primal.value(wide.point).value, rel=1e-5)
    assert {leaf.precision for leaf in wide.codomain} == {"float64"}
    assert (
        net.linear.weight.dtype == net.scale.dtype == net.shift.dtype == torch.float32
    )


def test_what_runs_in_one_precision_alone_is_not_lifted():
    def only(a):
        if a.dtype != torch.float32:
            raise TypeError("float32 alone")
        return a * 2

    rule = adapt(only, x(3, dtype=torch.float32))
    assert rule.forward.lifted() is None
    assert rule.in_precision("float64") is None
    constant = torch.ones(3)
    rule = adapt(
        lambda a: torch.empty(3).copy_(a) * constant, x(3, dtype=torch.float32)
    )
    assert rule.in_precision("float64") is None  # its output stays float32


def test_random_numbers_are_drawn_alike_when_lifted():
    rule = adapt(lambda a: a * (torch.rand(a.shape) > 0.5), x(64, dtype=torch.float32))
    wide = rule.forward.lifted()
    assert np.array_equal(
        wide.value(wide.point).value, rule.primal.value(wide.point).value
    )


def test_complex_numbers_are_lifted_to_complex128():
    z = torch.complex(x(3), x(3, seed=1)).to(torch.complex64)
    wide = adapt(lambda a: a.to(torch.complex64).exp(), z).forward.lifted()
    assert wide.codomain.leaves[0].dtype == "complex128"
    assert wide.value(wide.point).failure is None


class WrongInHalf(Function):
    """Right above half precision."""

    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, g):
        return g * (3 if g.dtype is torch.bfloat16 else 2)


@pytest.mark.parametrize("precision", ["float64", "float32", "float16", "bfloat16"])
def test_the_rule_in_another_precision_is_the_rule_there(precision):
    rule = adapt(WrongInHalf, x(3, dtype=torch.float32), name="scale")
    other = rule.in_precision(precision)
    assert {leaf.precision for leaf in other.primal.domain} == {precision}
    assert {leaf.precision for leaf in other.primal.codomain} == {precision}
    assert np.array_equal(
        other.primal.point, other.primal.domain.snap(rule.primal.point)
    )
    factor = 3 if precision == "bfloat16" else 2
    ybar = np.array([0.25, 0.5, 1.5])
    assert np.array_equal(other.vjp(other.primal.point, ybar).value, factor * ybar)
    assert other.source == rule.source
    assert other.inspect(other.primal.point, ybar).form.entered == ("WrongInHalf",)


def test_a_module_in_another_precision_is_a_copy():
    net = torch.nn.Linear(3, 2)
    rule = adapt(net, x(4, 3, dtype=torch.float32))
    other = rule.in_precision("float64")
    assert [a.path for a in other.primal.domain] == ["input", "weight", "bias"]
    ybar = np.ones(8)
    native = rule.vjp(rule.primal.point, ybar).value
    assert other.vjp(rule.primal.point, ybar).value == pytest.approx(native, rel=1e-5)
    assert net.weight.dtype is torch.float32
    assert net.weight.grad is None


def test_a_surrogate_goes_along():
    rule = adapt(WrongInHalf, x(3), surrogate=lambda a: a * 5)
    assert rule.primal.value(rule.primal.point).value == pytest.approx(
        5 * rule.primal.point
    )
    other = rule.in_precision("float32")
    assert other.primal.value(other.primal.point).value == pytest.approx(
        5 * other.primal.point
    )
    assert other.vjp(other.primal.point, np.ones(3)).value == pytest.approx([2, 2, 2])
