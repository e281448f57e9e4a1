"""A rule that is wrong at one value alone, where its neighbours are right."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import gradproof


def rule(forward: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> Any:
    class Special(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad_output * slope(x)

    return Special.apply


def except_at(value: float, slope: Callable[[Tensor], Tensor]) -> Any:
    """``slope``, and 0 at this value."""
    return lambda x: torch.where(x == value, torch.zeros_like(x), slope(x))


def sinc(x: Tensor) -> Tensor:
    return torch.where(x == 0, torch.ones_like(x), x.sin() / x)


def sinc_right(x: Tensor) -> Tensor:
    safe = torch.where(x == 0, torch.ones_like(x), x)
    return torch.where(
        x == 0, torch.zeros_like(x), (safe.cos() - safe.sin() / safe) / safe
    )


FUNCTIONS = {
    "exp at 0": (torch.exp, torch.exp, 0.0),
    "exp at 1": (torch.exp, torch.exp, 1.0),
    "x log x at 1": (lambda x: x * x.log(), lambda x: x.log() + 1, 1.0),
    "square at -1.5": (torch.square, lambda x: 2 * x, -1.5),
}


def inputs(value: float, size: int, dtype: torch.dtype, *, positive: bool) -> Tensor:
    x = torch.linspace(0.3, 2.1, size, dtype=dtype)
    if not positive:
        x = x * torch.where(torch.arange(size) % 2 == 0, 1.0, -1.0).to(dtype)
    x[size // 3] = value
    return x


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(12, torch.float64), (12, torch.bfloat16), (3000, torch.float32)],
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_at_one_value(name: str, size: int, dtype: torch.dtype) -> None:
    forward, slope, value = FUNCTIONS[name]
    x = inputs(value, size, dtype, positive="log" in name)
    bad = gradproof.check(rule(forward, except_at(value, slope)), x, ways=False)
    assert bad.verdict is gradproof.Verdict.FAIL
    assert f"[{int((x == value).nonzero()[0])}]" in str(bad)
    assert gradproof.check(rule(forward, slope), x, ways=False).ok


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_branch_that_mends_a_hole_is_right(dtype: torch.dtype) -> None:
    x = inputs(0.0, 12, dtype, positive=False)
    assert gradproof.check(rule(sinc, sinc_right), x, ways=False).ok
