"""derivative and jacobian: numbers with their errors, in the user's shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradproof
from gradproof import UsageError, arg, derivative, jacobian
from gradproof.verdict import Code


def honest(found, truth):
    assert found.ok
    assert found.value.shape == np.shape(truth)
    assert (np.abs(found.value - truth) <= found.bound).all()
    assert (found.bar <= found.bound).all()
    assert found.bound.max() <= 1e-6 * np.abs(truth).max()


def test_a_number():
    found = derivative(np.sin, 0.7)
    honest(found, np.cos(0.7))
    assert str(found).startswith("0.76484218728")
    assert " ± " in str(found)
    assert found.evaluations > 4
    assert found.method == "central difference"


def test_the_shapes_are_those_of_output_and_input():
    a = np.arange(1.0, 7.0).reshape(2, 3)
    found = jacobian(lambda x: np.outer(x[0], x[1]) / 4, a)
    assert found.value.shape == found.bar.shape == found.code.shape == (3, 3, 2, 3)
    truth = np.zeros((3, 3, 2, 3))
    for i in range(3):
        for j in range(3):
            truth[i, j, 0, i] = a[1, j] / 4
            truth[i, j, 1, j] = a[0, i] / 4
    honest(found, truth)
    assert str(found).startswith("54 of 54 derivatives of shape (3, 3, 2, 3), each ± ")


def test_a_direction():
    a, u = np.array([0.5, 1.5]), np.array([1.0, -2.0])
    honest(derivative(np.exp, a, direction=u), np.exp(a) * u)
    t = torch.tensor(a)
    found = derivative(torch.exp, t, direction=torch.tensor(u))
    honest(found, np.exp(a) * u)
    both = derivative(np.multiply, (a, u), direction=(None, a))
    honest(both, a * a)


def test_several_inputs_and_outputs_have_names():
    def f(x, w):
        return x * w, x.sum()

    x, w = torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    found = jacobian(f, (x, w))
    assert set(found) == {
        ("out[0]", "x"), ("out[0]", "w"), ("out[1]", "x"), ("out[1]", "w"),
    }  # fmt: skip
    honest(found["out[0]", "x"], np.diag(w.numpy()))
    assert (found["out[1]", "w"].value == 0).all()
    along = derivative(f, (x, w), direction=(np.ones(3), None))
    honest(along["out[0]"], w.numpy())
    assert along["out[1]"].value.shape == ()


def test_without_a_direction_it_is_the_jacobian():
    x = np.array([0.25, 0.5])
    assert np.array_equal(derivative(np.cos, x).value, jacobian(np.cos, x).value)


def test_no_rule_is_needed_and_none_is_asked():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x**3

        @staticmethod
        def backward(ctx, g):
            raise AssertionError

    honest(jacobian(Wrong, torch.tensor([2.0], dtype=torch.float64)), [[12.0]])


def test_where_there_is_no_derivative_there_is_no_number():
    found = jacobian(np.abs, np.array([0.0, 1.0]))
    assert found.code[0, 0] == Code.KINK
    assert np.isnan(found.value[0, 0])
    assert (found.left[0, 0], found.right[0, 0]) == pytest.approx((-1, 1))
    assert np.isnan(found.left[1, 1])
    assert not found.ok
    assert str(derivative(abs, 0.0)) == "no derivative (kink)"
    noise = derivative(lambda x: np.sin(x) + np.sin(1e9 * x), 0.5)
    assert not noise.ok


def test_in_single_precision_it_is_lifted_or_honest():
    x = torch.tensor([0.5, 1.5])
    found = jacobian(torch.sin, x)
    assert "lifted" in found.method
    honest(found, np.diag(np.cos(x.double().numpy())))
    opaque = jacobian(lambda x: torch.from_numpy(np.sin(x.numpy())), x)
    assert (
        np.abs(opaque.value - np.diag(np.cos(x.double().numpy()))) <= opaque.bound
    ).all()


def test_complex_arrays_count_as_pairs():
    z = np.array([1 + 2j])
    found = jacobian(lambda z: z * z, z)
    honest(found, np.array([[[[2.0, -4.0], [4.0, 2.0]]]]).reshape(1, 2, 1, 2))
    honest(derivative(lambda z: z * z, z, direction=np.array([1j])), [[-4.0, 2.0]])


def test_a_warm_start_is_reset():
    last = [0.0]

    def newton(a):
        x = last[0] or 1.0
        for _ in range(3):
            x = 0.5 * (x + a / x)
        last[0] = float(x)
        return x

    def reset():
        last[0] = 0.0

    found = derivative(newton, 2.0, reset=reset)
    assert abs(found.value - 0.5 / np.sqrt(2.0)) < 1e-2
    assert found.ok


def test_an_input_on_a_set():
    found = jacobian(
        lambda a: np.linalg.slogdet(a)[1],
        arg.spd(np.array([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 1.5]])),
    )
    assert np.allclose(found.value, found.value.T, rtol=1e-12)
    q = np.array([0.6, 0.8])
    along = derivative(np.arctan, arg.unit(q), direction=np.array([-0.8, 0.6]))
    honest(along, np.array([-0.8, 0.6]) / (1 + q * q))
    whole = jacobian(np.arctan, arg.unit(q))
    p = np.eye(2) - np.outer(q, q)
    honest(whole, np.diag(1 / (1 + q * q)) @ p)
    a = np.array([[2.0, 0.5], [0.5, 3.0]])
    u = np.array([[1.0, 0.25], [0.25, -1.0]])
    found = derivative(np.linalg.inv, arg.symmetric(a), direction=u)
    honest(found, -np.linalg.inv(a) @ u @ np.linalg.inv(a))


BAD = {
    "shape": (np.sin, np.ones(3), np.ones(2),
              "direction= has shape (2,) for x, which has shape (3,)"),
    "count": (np.multiply, (np.ones(2), np.ones(2)), (np.ones(2),),
              "direction= has 1 parts, and one was expected for each of x1, x2 (None for one that stays)"),
    "words": (np.sin, np.ones(2), "along", "direction= is no array of numbers for "
              "x: could not convert string to float: 'along'"),
    "nan": (np.sin, np.ones(1), np.array([np.nan]),
            "direction= holds a number that is not finite"),
    "off": (np.sin, arg.unit(np.array([0.6, 0.8])), np.array([0.6, 0.8]),
            "direction= leaves the set that was declared: unit vectors (x); "
            "give a tangent of it"),
    "nothing": (np.sin, "x", None,
                "sin was given no floating-point array (x: str), so there is "
                "nothing to differentiate by; pass at least one float or complex array."),
    "no function": (3, np.ones(2), None,
                    "Expected a function that can be called but got int."),
    "no array": (lambda x: "text", np.ones(2), None,
                 "<lambda> returned str where an array of floating-point numbers was "
                 "expected; return the array whose derivative is asked for."),
    "large": (lambda x: np.outer(x, x), np.ones(300), None,
              "the Jacobian has 27000000 entries, more than are formed (16777216); ask "
              "for derivative(fn, x, direction=u)"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_asked_is_refused_in_a_sentence(name):
    fn, x, direction, said = BAD[name]
    with pytest.raises(UsageError) as error:
        derivative(fn, x, direction=direction)
    assert str(error.value) == said


def test_a_function_that_raises_says_so():
    def f(x):
        raise ValueError("no luck")

    with pytest.raises(gradproof.UsageError, match=r"f raised ValueError .*: no luck"):
        derivative(f, 1.0)
