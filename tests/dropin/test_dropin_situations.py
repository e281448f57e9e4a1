"""Every situation against the text that a program may match."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from dropin_cases import (
    MISMATCH,
    PRECONDITIONS,
    RIGHT,
    UNDEFINED_REFUSED,
    WRONG,
    Case,
    NoUndefined,
    Square,
    UndefinedIsOne,
    hooked,
    leaf,
    ones,
    shifted,
)
from torch.autograd.gradcheck import GradcheckError as TorchGradcheckError

from gradproof.adapters.torch_gradcheck import GradcheckError, gradcheck

# Torch's own, on the first use of forward mode in a process.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

BOTH = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
LOW_PRECISION = (
    "^Input #{} requires gradient and is not a double precision floating point or "
    "complex. This check will likely fail if all the inputs are not of double "
    "precision floating point or complex. $"
)
NEW_FEATURE = (
    "^Backwards compatibility: New undefined gradient support checking feature is "
    "enabled by default, but it may break existing callers of this function. If this "
    'is true for you, you can call this function with "check_undefined_grad=False" to '
    "disable the feature$"
)


def raised(asking: Callable[[], Any]) -> Any:
    """What was raised, or else what came back."""
    try:
        return asking()
    except GradcheckError as error:
        return error


def named(cases: tuple[Case, ...]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[c.name for c in cases])


@BOTH
@named(RIGHT)
def test_right_is_true(case: Case, fast: bool) -> None:
    func, inputs = case.make()
    assert gradcheck(func, inputs, fast_mode=fast, **case.options) is True


@BOTH
@named((*WRONG, *PRECONDITIONS))
def test_wrong_raises_the_known_text(case: Case, fast: bool) -> None:
    func, inputs = case.make()
    assert case.error is not None
    with pytest.raises(case.error, match=case.match) as caught:
        gradcheck(func, inputs, fast_mode=fast, **case.options)
    assert isinstance(caught.value, GradcheckError) is case.caught


@BOTH
@named(WRONG)
def test_wrong_is_false_on_request(case: Case, fast: bool) -> None:
    func, inputs = case.make()
    got = gradcheck(func, inputs, fast_mode=fast, raise_exception=False, **case.options)
    assert got is False


@BOTH
@named(PRECONDITIONS)
def test_preconditions_raise_all_the_same(case: Case, fast: bool) -> None:
    func, inputs = case.make()
    assert case.error is not None
    with pytest.raises(case.error, match=case.match):
        gradcheck(func, inputs, fast_mode=fast, raise_exception=False, **case.options)


def test_the_error_is_torchs_too() -> None:
    assert issubclass(GradcheckError, TorchGradcheckError)
    assert issubclass(GradcheckError, RuntimeError)


def test_torchs_own_error_from_the_function_counts_as_failure() -> None:
    def fn(_x: torch.Tensor) -> torch.Tensor:
        raise TorchGradcheckError("nested")

    assert gradcheck(fn, (leaf(1),), raise_exception=False) is False
    with pytest.raises(TorchGradcheckError, match=r"^nested$"):
        gradcheck(fn, (leaf(1),))


def test_slow_text_holds_both_jacobians() -> None:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda x: hooked(lambda g: g * 3)(x), (ones(2),))
    assert str(caught.value) == (
        "Jacobian mismatch for output 0 with respect to input 0,\n"
        "numerical:tensor([[1.0000, 0.0000],\n"
        "        [0.0000, 1.0000]], dtype=torch.float64)\n"
        "analytical:tensor([[3., 0.],\n"
        "        [0., 3.]], dtype=torch.float64)\n"
    )


def test_fast_text_ends_with_the_slow_jacobians() -> None:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(hooked(lambda g: g * 3), (ones(2),), fast_mode=True)
    head, _, tail = str(caught.value).partition("\n\n")
    assert head.startswith("Jacobian mismatch for output 0 with respect to input 0,\n")
    body, _, gap = tail.rpartition(": ")
    assert body == (
        "The above quantities relating the numerical and analytical jacobians are "
        "computed \nin fast mode. See: "
        "https://github.com/pytorch/pytorch/issues/53876 for more background \n"
        "about fast mode. Below, we recompute numerical and analytical jacobians in "
        "slow mode:\n\nNumerical:\n tensor([[1.0000, 0.0000],\n"
        "        [0.0000, 1.0000]], dtype=torch.float64)\n"
        "Analytical:\ntensor([[3., 0.],\n        [0., 3.]], dtype=torch.float64)\n\n"
        "The max per-element difference (slow mode) is"
    )
    assert gap.endswith(".\n")
    assert float(gap[:-2]) == pytest.approx(2.0)


def test_fast_text_says_when_slow_would_pass() -> None:
    """A difference of two, each within rtol, whose error is not small beside it."""

    class Difference(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[0] - x[1]

        @staticmethod
        def backward(ctx, g):
            return g * torch.tensor([1 + 9e-4, -1 + 9e-4], dtype=g.dtype)

    options = {"atol": 1e-8, "rtol": 1e-3}
    assert gradcheck(Difference.apply, (leaf(2),), **options)
    with pytest.raises(
        GradcheckError,
        match=r"is: 0\.0009[0-9]*\.\nFast gradcheck failed but element-wise differences",
    ):
        gradcheck(Difference.apply, (leaf(2),), fast_mode=True, **options)


def test_fast_text_leaves_out_jacobians_that_are_too_large() -> None:
    x = ones(2**13)
    with pytest.raises(GradcheckError, match=MISMATCH) as caught:
        gradcheck(hooked(lambda g: g * 3), (x,), fast_mode=True)
    assert "slow mode" not in str(caught.value)


@BOTH
def test_low_precision_warns_for_each_such_input(fast: bool) -> None:
    x, y = leaf(2, dtype=torch.float32), leaf(2, dtype=torch.complex64)
    with (
        pytest.warns(UserWarning, match=LOW_PRECISION.format(0)),
        pytest.warns(UserWarning, match=LOW_PRECISION.format(1)),
    ):
        assert gradcheck(torch.mul, (x, y), atol=0.5, fast_mode=fast)


def test_a_warning_points_at_the_callers_line() -> None:
    with pytest.warns(UserWarning, match=LOW_PRECISION.format(0)) as seen:
        gradcheck(torch.sin, (leaf(1, dtype=torch.float32),), atol=0.5)
    assert [w.filename for w in seen] == [__file__]


@BOTH
def test_mkldnn_output_is_refused(fast: bool) -> None:
    x = leaf(2, dtype=torch.float32)
    with (
        pytest.warns(UserWarning, match="double precision"),
        pytest.raises(
            ValueError,
            match=r"^MKLDNN output is not supported at gradcheck yet. Please call to_dense",
        ),
    ):
        gradcheck(lambda x: x.to_mkldnn(), (x,), fast_mode=fast)


@BOTH
@pytest.mark.parametrize("raising", [True, False])
def test_undefined_gradients_that_raise(fast: bool, raising: bool) -> None:
    func, inputs = UNDEFINED_REFUSED.make()
    asking = partial(gradcheck, func, inputs, fast_mode=fast, raise_exception=raising)
    with pytest.warns(UserWarning, match=NEW_FEATURE):
        got = raised(asking)
    if raising:
        assert isinstance(got, GradcheckError)
        assert re.search(UNDEFINED_REFUSED.match, str(got))
        assert str(got.__cause__) == "x is undefined"
    else:
        assert got is False
    assert gradcheck(func, inputs, fast_mode=fast, check_undefined_grad=False)


@BOTH
def test_undefined_gradients_that_are_taken_for_ones(fast: bool) -> None:
    with (
        pytest.warns(UserWarning, match=NEW_FEATURE),
        pytest.raises(
            GradcheckError,
            match=r"^Expected all input grads to be undefined or zero when all output grads "
            'are undefined or zero. Please look at "Notes about undefined output gradients"'
            ' in "tools/autograd/derivatives.yaml"$',
        ),
    ):
        gradcheck(UndefinedIsOne.apply, (ones(2),), fast_mode=fast)


def test_one_output_alone_undefined_is_asked_as_well() -> None:
    """Right while all gradients are there, or none is; refuses a mixture."""

    class Mixed(NoUndefined):
        @staticmethod
        def backward(ctx, a, b):
            if (a is None) != (b is None):
                message = "only one gradient came"
                raise RuntimeError(message)
            return None if a is None else 2 * a + 3 * b

    with (
        pytest.warns(UserWarning, match=NEW_FEATURE),
        pytest.raises(
            GradcheckError, match=r"^Expected backward function to handle undefined"
        ) as caught,
    ):
        # A sum of both, so that the comparison itself always sends two gradients.
        gradcheck(_outputs_that_send_both(Mixed), (ones(2),))
    assert str(caught.value.__cause__) == "only one gradient came"


def _outputs_that_send_both(function: Any) -> Any:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = function.apply(x)
        return _Joined.apply(a, b)

    return fn


class _Joined(torch.autograd.Function):
    """The identity on two tensors; a gradient that is not zero brings the other."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a)
        return a.clone(), b.clone()

    @staticmethod
    def backward(ctx, a, b):
        if not any(g is not None and bool(g.any()) for g in (a, b)):
            return a, b
        (like,) = ctx.saved_tensors
        zero = torch.zeros_like(like)
        return (zero if a is None else a), (zero if b is None else b)


def test_undefined_tangents_must_count_like_zeros() -> None:
    class Fussy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g, g

        @staticmethod
        def jvp(ctx, a, b):
            if a is None or b is None:
                return 2 * (b if a is None else a)
            return a + b

    with pytest.raises(GradcheckError) as caught:
        gradcheck(Fussy.apply, (leaf(2), leaf(2)), check_forward_ad=True)
    error = caught.value
    assert error.args[0] == "Mismatch in tangent values for output with index: "
    assert error.args[1] == 0
    assert error.args[2] == " when input: "
    assert torch.equal(error.args[3], leaf(2))
    assert error.args[4] == " has an undefined tangent value. "
    assert (error.args[5], error.args[7]) == (" Got: ", " but expected: ")
    assert torch.equal(2 * error.args[6], error.args[8])
    assert gradcheck(
        Fussy.apply,
        (leaf(2), leaf(2)),
        check_forward_ad=True,
        check_undefined_grad=False,
    )


def test_a_tangent_of_another_field_is_named_on_request() -> None:
    class Real(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1j

        @staticmethod
        def backward(ctx, g):
            return (g * -1j).real

        @staticmethod
        def jvp(ctx, t):
            return t.clone()

    options = {"check_forward_ad": True, "check_backward_ad": False}
    with pytest.raises(
        GradcheckError, match=r"^Forward AD gradient has dtype mismatch"
    ):
        gradcheck(Real.apply, (leaf(2),), check_grad_dtypes=True, **options)


def test_nested_tensors_are_not_silently_left_out() -> None:
    with pytest.raises(IndexError, match=r"^inputs\[1\] holds a tensor that requires"):
        gradcheck(lambda x, ys: x * ys[0], (leaf(2), [leaf(2)]))


def test_another_number_of_outputs_is_named() -> None:
    def fn(x: torch.Tensor) -> Any:
        return (x, x) if bool((x > 1).any()) else (x,)

    with pytest.raises(
        AssertionError,
        match=r"^Expected `func` to return the same number of outputs when inputs are "
        "perturbed, but got: 1 and 2.$",
    ):
        gradcheck(fn, (ones(1),))


@BOTH
@pytest.mark.parametrize("first", ["integer", "float", "bool"])
def test_outputs_without_grad_do_not_shift_the_others(first: str, fast: bool) -> None:
    def fn(x: torch.Tensor) -> Any:
        other = {"integer": x.argmax(), "float": x.detach().clone(), "bool": x > 0}
        return other[first], x.sin()

    assert gradcheck(fn, (leaf(3),), fast_mode=fast, check_forward_ad=True)


@BOTH
def test_a_second_output_of_another_size(fast: bool) -> None:
    assert gradcheck(
        lambda x: (x.sum(), Square.apply(x), x[:1]), (leaf(3),), fast_mode=fast
    )


@BOTH
def test_an_indented_constant_gradient_fails_first_at_the_numbers(fast: bool) -> None:
    with pytest.raises(GradcheckError, match=MISMATCH):
        gradcheck(hooked(shifted), (ones(2, 2),), fast_mode=fast)
