"""Gradients of a form that the engine never gives today, and advice that is absent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dropin_cases import Jittered, RandomTangent, SeesTheBatch, leaf

from gradproof.adapters import torch_gradcheck_demands as demands
from gradproof.adapters.torch_gradcheck import GradcheckError, gradcheck

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

BOTH = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def changed(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[torch.Tensor], Any]
) -> None:
    """Let the engine give other gradients than it would."""
    grad = torch.autograd.grad

    def other(*args: Any, **kwargs: Any) -> Any:
        return tuple(change(g) for g in grad(*args, **kwargs))

    monkeypatch.setattr(torch.autograd, "grad", other)


@BOTH
def test_a_gradient_of_another_shape(
    monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    changed(monkeypatch, lambda g: g.reshape(3, 2))
    with pytest.raises(
        GradcheckError, match=r"^Analytical gradient has incorrect size$"
    ):
        gradcheck(torch.sin, (leaf(2, 3),), fast_mode=fast)


@BOTH
def test_a_gradient_of_another_number_of_elements(
    monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    changed(monkeypatch, lambda g: g[:1])
    with pytest.raises(
        AssertionError,
        match=r"^Expected out_jacobian column to have 3 elements, but got 6$",
    ):
        gradcheck(torch.sin, (leaf(2, 3),), fast_mode=fast)


@BOTH
def test_a_gradient_of_another_dtype(
    monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    changed(monkeypatch, lambda g: g.float())
    with pytest.raises(GradcheckError, match=r"^Gradient has dtype mismatch$"):
        gradcheck(torch.sin, (leaf(2),), check_grad_dtypes=True, fast_mode=fast)
    with pytest.raises(GradcheckError, match=r"^grad is incorrect type$"):
        gradcheck(torch.sin, (leaf(2),), fast_mode=fast)


@pytest.mark.parametrize("n", [1, 64, 65, 130])
def test_every_row_is_taken_twice(n: int) -> None:
    """The very last row alone is not repeatable."""
    calls = [0]

    class Last(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls[0] += 1
            return g * (2 + 1e-9 * (calls[0] == 2 * n))

    with pytest.raises(GradcheckError, match=r"^Backward is not reentrant"):
        gradcheck(Last.apply, (leaf(n),))
    calls[0] = 2 * n
    assert gradcheck(Last.apply, (leaf(n),))


class Elsewhere(torch.Tensor):
    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("meta")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda g: g.as_subclass(Elsewhere), r"^grad is incorrect device$"),
        (lambda g: g.reshape(2, 1), r"^grad is incorrect size$"),
    ],
    ids=["device", "size"],
)
def test_a_zero_gradient_of_another_form(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[torch.Tensor], Any], text: str
) -> None:
    x = leaf(2)
    outputs = [x.sin()]
    changed(monkeypatch, change)
    with pytest.raises(GradcheckError, match=text):
        demands.zero_gives_zero(outputs, (x,), masked=False)


ADVICE = (
    (
        "FAILED_NONDET_MSG",
        lambda x: Jittered.apply(x, 1e-6),
        {},
        r"was 0\.0\.\n\nSee the argument `nondet_tol`\.\n$",
    ),
    (
        "FAILED_BATCHED_GRAD_MSG",
        SeesTheBatch.apply,
        {"check_batched_grad": True},
        r"^For output 0 and input 0:\n\ngradcheck or gradgradcheck failed while testing "
        r"batched gradient computation\.\n\nGot:\n",
    ),
    (
        "FAILED_BATCHED_GRAD_MSG_FWD_AD",
        RandomTangent.apply,
        {"check_forward_ad": True, "check_batched_forward_grad": True},
        r"\n\ngradcheck failed while testing batched gradient computation with "
        r"forward-mode AD\.$",
    ),
    (
        "FAST_FAIL_SLOW_OK_MSG",
        lambda x: OffByRtol.apply(x),
        {"fast_mode": True, "atol": 1e-8},
        r"\nFast gradcheck failed but element-wise differences are small\.$",
    ),
)


class OffByRtol(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x[0] - x[1]

    @staticmethod
    def backward(ctx, g):
        return g * torch.tensor([1 + 9e-4, -1 + 9e-4], dtype=g.dtype)


@pytest.mark.parametrize(
    ("name", "func", "options", "text"), ADVICE, ids=[a[0] for a in ADVICE]
)
def test_a_torch_without_the_advice_leaves_the_sentence(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    func: Callable[..., Any],
    options: dict[str, Any],
    text: str,
) -> None:
    monkeypatch.delattr(sys.modules["torch.autograd.gradcheck"], name)
    with pytest.raises(GradcheckError, match=text):
        gradcheck(func, (leaf(2),), **options)


def test_batched_forward_that_differs_from_the_loop() -> None:
    class Sees(RandomTangent):
        @staticmethod
        def jvp(ctx, x):
            return x * (5 if torch._C._functorch.is_legacy_batchedtensor(x) else 2)

    with pytest.raises(
        GradcheckError,
        match=r"^For output 0 and input 0:\n\n\ngradcheck failed while testing batched "
        r"gradient computation with forward-mode AD.(.|\n)*\n\nGot:\n(.|\n)*Expected:\n",
    ):
        gradcheck(
            Sees.apply,
            (leaf(2),),
            check_forward_ad=True,
            check_batched_forward_grad=True,
        )
