"""Who decides: the caller's criterion when given, else the judge where it knows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from dropin_cases import (
    MISMATCH,
    PairWithTangents,
    Square,
    WrongSquare,
    WrongTangent,
    hooked,
    leaf,
    ones,
)
from torch.autograd import Function

from gradproof.adapters.torch_gradcheck import GradcheckError, Options, run

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*double precision:UserWarning"),
]

BOTH = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
REFUTED = "These agree within the tolerances, and yet the gradient is wrong.\n"


class Judge:
    """Answers as told, and remembers how it was asked."""

    def __init__(self, answer: bool | None) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []
        self.explained = 0

    def __call__(self, _func: Any, inputs: tuple[Any, ...]) -> bool | None:
        self.asked.append(inputs)
        return self.answer

    def explain(self) -> str:
        self.explained += 1
        return "our reasons"


def ask(judge: Judge, func: Any, inputs: Any, **options: Any) -> bool:
    return run(
        func, inputs, options=Options(**options), judge=judge, explain=judge.explain
    )


def noisy(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values at which a step of 1e-6 is lost to rounding."""
    return (leaf(3, dtype=dtype).detach() + 30).requires_grad_()


@BOTH
def test_numbers_lost_to_rounding_are_overruled(fast: bool) -> None:
    judge = Judge(answer=True)
    x = noisy()
    assert ask(judge, Square.apply, (x,), fast_mode=fast) is True
    assert judge.asked == [(x,)]
    assert judge.explained == 0


@BOTH
@pytest.mark.parametrize("answer", [None, False], ids=["unknown", "wrong"])
def test_a_mismatch_stands_unless_proven_right(answer: bool | None, fast: bool) -> None:
    judge = Judge(answer=answer)
    with pytest.raises(GradcheckError, match=MISMATCH) as caught:
        ask(judge, Square.apply, (noisy(),), fast_mode=fast)
    assert str(caught.value).endswith("\nour reasons")
    assert REFUTED not in str(caught.value)
    assert (len(judge.asked), judge.explained) == (1, 1)


@BOTH
def test_what_only_the_judge_sees_is_a_mismatch(fast: bool) -> None:
    judge = Judge(answer=False)
    with pytest.raises(GradcheckError) as caught:
        ask(judge, Square.apply, (leaf(1),), fast_mode=fast)
    head, _, tail = str(caught.value).partition("\nanalytical:")
    assert head.startswith(
        "Jacobian mismatch for output 0 with respect to input 0,\nnumerical:"
    )
    assert tail.endswith(f"\n{REFUTED}\nour reasons")
    assert len(judge.asked) == 1
    assert not ask(
        judge, Square.apply, (leaf(1),), fast_mode=fast, raise_exception=False
    )


def test_the_pair_that_differs_most_is_named() -> None:
    """All below atol; the second input's gradient is the wrong one."""
    with pytest.raises(
        GradcheckError, match=r"^Jacobian mismatch for output 1 with respect to input 1"
    ):
        ask(
            Judge(answer=False),
            lambda x, y: (x + y, x + WrongSquare.apply(y * 1e-4)),
            (leaf(2), leaf(2)),
        )


@BOTH
@pytest.mark.parametrize("n", [0, 2])
def test_an_agreed_pass_is_a_pass(n: int, fast: bool) -> None:
    for answer in (True, None):
        judge = Judge(answer=answer)
        assert ask(judge, Square.apply, (leaf(n),), fast_mode=fast)
        assert (len(judge.asked), judge.explained) == (1, 0)


@pytest.mark.parametrize("given", [{"eps": 1e-5}, {"atol": 1e-4}, {"rtol": 1e-2}])
def test_a_criterion_that_is_given_decides_alone(given: dict[str, float]) -> None:
    judge = Judge(answer=False)
    assert ask(judge, Square.apply, (leaf(2),), **given)
    judge = Judge(answer=True)
    with pytest.raises(GradcheckError, match=MISMATCH) as caught:
        ask(judge, WrongSquare.apply, (leaf(2),), **given)
    assert judge.asked == []
    assert str(caught.value).endswith("\nour reasons")


@BOTH
def test_no_reasons_are_sought_for_a_quiet_failure(fast: bool) -> None:
    judge = Judge(answer=None)
    got = ask(
        judge, WrongSquare.apply, (leaf(2),), fast_mode=fast, raise_exception=False
    )
    assert got is False
    assert judge.explained == 0


def test_other_demands_fail_with_their_own_texts_first() -> None:
    judge = Judge(answer=False)
    with pytest.raises(
        GradcheckError, match=r"^backward not multiplied by grad_output"
    ):
        ask(judge, hooked(lambda g: g * 0 + 1), (ones(1),))
    assert judge.asked == []


def test_other_demands_are_made_though_proven_right() -> None:
    class Forgetful(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return torch.full_like(g, 2.0)

    x = (torch.ones(1) * 1e3).requires_grad_()
    with pytest.raises(
        GradcheckError, match=r"^backward not multiplied by grad_output"
    ):
        ask(Judge(answer=True), Forgetful.apply, (x,))


@BOTH
@pytest.mark.parametrize(
    "make",
    [
        lambda: (lambda x: x.to_dense(), leaf(3).detach().to_sparse().requires_grad_()),
        lambda: (torch.sin, leaf(3).detach().as_subclass(Own).requires_grad_()),
    ],
    ids=["sparse", "subclass"],
)
def test_unusual_tensors_are_decided_classically(make: Any, fast: bool) -> None:
    func, x = make()
    judge = Judge(answer=False)
    assert ask(judge, func, (x,), masked=True, fast_mode=fast)
    assert not ask(
        judge,
        lambda x: WrongSquare.apply(func(x)),
        (x,),
        masked=True,
        raise_exception=False,
    )
    with pytest.raises(GradcheckError) as caught:
        ask(judge, lambda x: WrongSquare.apply(func(x)), (x,), masked=True)
    assert "our reasons" not in str(caught.value)
    assert judge.asked == []
    assert judge.explained == 0


class Own(torch.Tensor):
    pass


def test_a_function_that_holds_its_inputs_is_decided_classically() -> None:
    x = leaf(2)
    judge = Judge(answer=False)
    assert ask(judge, lambda _x: x.sin(), (x,))
    judge = Judge(answer=True)
    with pytest.raises(GradcheckError, match=MISMATCH):
        ask(judge, lambda _x: WrongSquare.apply(x), (x,))
    assert judge.asked == []


def test_a_function_that_refuses_copies_is_decided_classically() -> None:
    x = leaf(2)

    def fn(value: torch.Tensor) -> torch.Tensor:
        if value is not x:
            message = "not the tensor that I know"
            raise RuntimeError(message)
        return value.sin()

    judge = Judge(answer=False)
    assert ask(judge, fn, (x,))
    assert judge.asked == []


def test_without_backward_or_outputs_nobody_is_asked() -> None:
    judge = Judge(answer=False)
    options = {"check_backward_ad": False, "check_forward_ad": True}
    assert ask(judge, PairWithTangents.apply, (leaf(2), leaf(2)), **options)
    assert ask(judge, lambda _x: torch.ones(1), (leaf(2),))
    assert judge.asked == []


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_forward_mode_is_then_held_against_the_backward(
    dtype: torch.dtype, fast: bool
) -> None:
    x = noisy(dtype)
    options = {"check_forward_ad": True, "fast_mode": fast}
    assert ask(Judge(answer=True), torch.square, (x,), **options)
    assert not ask(
        Judge(answer=None), torch.square, (x,), raise_exception=False, **options
    )


@BOTH
def test_forward_mode_that_differs_from_the_backward_is_wrong(fast: bool) -> None:
    for x in (noisy(), leaf(2)):
        with pytest.raises(
            GradcheckError, match=r"^Jacobian computed with forward mode mismatch for"
        ):
            ask(
                Judge(answer=True),
                WrongTangent.apply,
                (x,),
                check_forward_ad=True,
                fast_mode=fast,
            )


def test_forward_mode_to_complex_outputs_is_held_against_both_parts() -> None:
    assert ask(
        Judge(answer=True), lambda x: x * (2 + 1j), (noisy(),), check_forward_ad=True
    )


def test_reasons_may_be_none() -> None:
    with pytest.raises(GradcheckError) as caught:
        run(
            WrongSquare.apply,
            (leaf(2),),
            options=Options(),
            judge=lambda _f, _x: None,
            explain=lambda: "",
        )
    assert str(caught.value).endswith("dtype=torch.float64)\n")


def test_reasons_follow_an_error_that_is_no_single_text() -> None:
    class Fussy(Function):
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
        ask(Judge(answer=None), Fussy.apply, (leaf(2), leaf(2)), check_forward_ad=True)
    assert caught.value.args[-1] == "our reasons"
    assert len(caught.value.args) == 10
