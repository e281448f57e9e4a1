"""gradgradcheck: the gradient as a function of inputs and cotangents."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from dropin_cases import Jittered, Square, WrongSecond, leaf
from torch.autograd import Function

from gradproof.adapters.torch_gradcheck import (
    GradcheckError,
    SecondOptions,
    gradgradcheck,
    run_second,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

BOTH = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


@BOTH
@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("forward", [False, True], ids=["reverse", "forward"])
def test_right_is_true(fast: bool, strided: bool, forward: bool) -> None:
    for func, inputs in (
        (torch.sin, leaf(2, 3)),
        (torch.mul, (leaf(2), leaf(2, 2))),
        (torch.prod, (leaf(3),)),
        (lambda x: (x.sin(), x.exp().sum()), [leaf(3)]),
        (lambda z: z * z.conj() * z, (leaf(2, dtype=torch.complex128),)),
        (lambda x, k: x**k, (leaf(3), 3)),
    ):
        got = gradgradcheck(
            func,
            inputs,
            gen_non_contig_grad_outputs=strided,
            check_fwd_over_rev=forward,
            fast_mode=fast,
        )
        assert got is True


@BOTH
def test_wrong_raises_and_is_false_on_request(fast: bool) -> None:
    with pytest.raises(
        GradcheckError, match=r"^Jacobian mismatch for output 0 with respect to input 0"
    ):
        gradgradcheck(WrongSecond.apply, (leaf(3),), fast_mode=fast)
    got = gradgradcheck(
        WrongSecond.apply, (leaf(3),), fast_mode=fast, raise_exception=False
    )
    assert got is False


@BOTH
def test_forward_over_reverse_alone(fast: bool) -> None:
    options = {"check_rev_over_rev": False, "check_undefined_grad": False}
    assert gradgradcheck(
        torch.sin, (leaf(2),), check_fwd_over_rev=True, fast_mode=fast, **options
    )
    with pytest.raises(
        GradcheckError, match=r"^Jacobian computed with forward mode mismatch for"
    ):
        gradgradcheck(
            lambda x: x.detach() * x * x,
            (leaf(3),),
            check_fwd_over_rev=True,
            fast_mode=fast,
            **options,
        )


@BOTH
def test_given_cotangents_are_used(fast: bool) -> None:
    seen: list[torch.Tensor] = []

    class Watched(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            seen.append(g.detach().clone())
            return 2 * x * g

    given = torch.tensor([3.0, 5.0], dtype=torch.float64, requires_grad=True)
    for form in (given, (given,), [given]):
        seen.clear()
        assert gradgradcheck(Watched.apply, (leaf(2),), form, fast_mode=fast)
        assert torch.allclose(seen[0], given)
    fixed = given.detach()
    assert gradgradcheck(Watched.apply, (leaf(2),), fixed, fast_mode=fast)


def test_default_cotangents_lie_in_both_signs_and_strided_on_request() -> None:
    seen: list[torch.Tensor] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y.register_hook(seen.append)
        return y

    for strided in (False, True):
        seen.clear()
        gradgradcheck(
            fn,
            (leaf(4, 5),),
            gen_non_contig_grad_outputs=strided,
            check_undefined_grad=False,
        )
        first = seen[0].detach()
        assert first.is_contiguous() is not strided
        assert -1 <= float(first.min()) < 0 < float(first.max()) < 1


def test_an_output_without_grad_has_no_cotangent() -> None:
    assert gradgradcheck(lambda x: (x.argmax(), x.sin()), (leaf(3),))
    assert gradgradcheck(lambda x: x.detach() * 0, (leaf(2),))


def test_inputs_whose_gradient_is_none_have_no_output() -> None:
    assert gradgradcheck(lambda x, _y: x.sin(), (leaf(2), leaf(2)))


def test_a_linear_function_has_no_second_derivative() -> None:
    assert gradgradcheck(lambda x: x * 3, (leaf(2),))


@BOTH
def test_a_gradient_that_is_not_repeatable(fast: bool) -> None:
    def fn(x: torch.Tensor) -> Any:
        return Jittered.apply(x, 1e-12)

    with pytest.raises(GradcheckError, match=r"^Backward is not reentrant"):
        gradgradcheck(fn, (leaf(3),), fast_mode=fast)
    assert gradgradcheck(fn, (leaf(3),), nondet_tol=1e-5, fast_mode=fast)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"check_rev_over_rev": False},
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be "
            "True",
        ),
        (
            {"check_rev_over_rev": False, "check_fwd_over_rev": True},
            "Setting check_undefined_grad=True requires check_rev_over_rev to be True",
        ),
        (
            {
                "check_rev_over_rev": False,
                "check_fwd_over_rev": True,
                "check_undefined_grad": False,
                "check_batched_grad": True,
            },
            "Setting check_batched_grad=True requires check_rev_over_rev to be True",
        ),
    ],
    ids=["no mode", "undefined", "batched"],
)
def test_contradicting_keywords(options: dict[str, bool], text: str) -> None:
    with pytest.raises(AssertionError) as caught:
        gradgradcheck(torch.sin, (leaf(2),), raise_exception=False, **options)
    assert str(caught.value) == text


def test_nothing_requires_grad() -> None:
    with pytest.raises(ValueError, match=r"^gradcheck expects at least one input"):
        gradgradcheck(torch.sin, (leaf(2).detach(),))


def test_the_judge_is_handed_the_gradient() -> None:
    asked = []

    def judge(func: Any, inputs: tuple[Any, ...]) -> bool | None:
        asked.append((func(*inputs), inputs))
        return False

    given = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    x = leaf(2)
    with pytest.raises(GradcheckError, match=r"yet the gradient is wrong\.\n\nwhy$"):
        run_second(
            Square.apply,
            (x,),
            given,
            options=SecondOptions(),
            judge=judge,
            explain=lambda: "why",
        )
    ((value,), inputs) = asked[0]
    assert inputs == (x, given)
    assert torch.equal(value, 2 * x * given)
