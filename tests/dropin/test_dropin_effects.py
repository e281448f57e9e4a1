"""What a check leaves behind: nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dropin_cases import WRONG, Square, WrongSquare, leaf

from gradproof.adapters.torch_gradcheck import gradcheck, gradgradcheck

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

BOTH = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def raises_at(call: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """x², which raises at the n-th call."""
    calls = [0]

    def fn(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        if calls[0] == call:
            message = "out of luck"
            raise OSError(message)
        return x * x

    return fn


@BOTH
@pytest.mark.parametrize("call", [2, 3], ids=["below", "above"])
def test_inputs_are_put_back_when_the_function_raises(call: int, fast: bool) -> None:
    x = leaf(3)
    with pytest.raises(OSError, match=r"^out of luck$"):
        gradcheck(raises_at(call), (x,), fast_mode=fast)
    assert torch.equal(x, leaf(3))


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_inputs_are_put_back_when_the_function_raises(
    layout: torch.layout,
) -> None:
    x = leaf(2, 2).detach().to_sparse(layout=layout).requires_grad_()
    inner = raises_at(2)
    with pytest.raises(OSError, match=r"^out of luck$"):
        gradcheck(lambda x: inner(x.to_dense()), (x,), masked=True)
    assert torch.equal(x.to_dense(), leaf(2, 2))


@BOTH
def test_inputs_are_as_before_when_the_function_writes_to_them(fast: bool) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        out = x * 2
        with torch.no_grad():
            x.data += 1
        return out

    x = leaf(3)
    gradcheck(fn, (x,), fast_mode=fast, raise_exception=False)
    assert torch.equal(x, leaf(3))


@BOTH
def test_inputs_are_moved_in_place_for_functions_that_hold_them(fast: bool) -> None:
    x = leaf(3)
    assert gradcheck(lambda _x: x.sin(), (x,), fast_mode=fast)
    assert not gradcheck(
        lambda _x: WrongSquare.apply(x), (x,), fast_mode=fast, raise_exception=False
    )
    assert torch.equal(x, leaf(3))


def all_at_once(x: torch.Tensor, y: torch.Tensor) -> Any:
    options = {"check_forward_ad": True, "check_batched_forward_grad": True}
    gradcheck(torch.mul, (x, y), check_batched_grad=True, **options)
    gradcheck(torch.mul, (x, y), fast_mode=True)
    gradgradcheck(torch.mul, (x, y), gen_non_contig_grad_outputs=True)
    gradgradcheck(torch.mul, (x, y), fast_mode=True, check_batched_grad=True)


def test_the_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    all_at_once(leaf(2), leaf(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_grads_versions_and_flags_are_left_alone() -> None:
    x, y = leaf(2), leaf(2)
    x.grad = torch.full((2,), 7.0, dtype=x.dtype)
    held, version = x.grad, x._version
    all_at_once(x, y)
    assert x.grad is held
    assert x.grad.tolist() == [7.0, 7.0]
    assert y.grad is None
    assert (x._version, x.requires_grad, x.is_leaf) == (version, True, True)


@BOTH
def test_the_grad_mode_is_neither_used_nor_changed(fast: bool) -> None:
    seen = set()

    def fn(x: torch.Tensor) -> torch.Tensor:
        seen.add(torch.is_grad_enabled())
        return x.sin()

    assert gradcheck(fn, (leaf(2),), fast_mode=fast)
    assert seen == {True}
    with torch.no_grad():
        gradcheck(fn, (leaf(2),), fast_mode=fast, raise_exception=False)
        assert not torch.is_grad_enabled()
    assert seen == {True, False}


def test_the_default_dtype_and_device_do_not_matter() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            assert gradcheck(Square.apply, (leaf_on_cpu(3),), fast_mode=True)
            assert gradgradcheck(torch.sin, (leaf_on_cpu(3),))
    finally:
        torch.set_default_dtype(before)


def leaf_on_cpu(n: int) -> torch.Tensor:
    data = [0.5 + 0.1 * k for k in range(n)]
    return torch.tensor(data, dtype=torch.float64, device="cpu", requires_grad=True)


def test_the_same_question_has_the_same_answer() -> None:
    """Nothing is drawn anew: two failures have one text."""
    case = next(c for c in WRONG if c.name == "forward mode")
    texts = []
    for _ in range(2):
        func, inputs = case.make()
        with pytest.raises(RuntimeError) as caught:
            gradcheck(func, inputs, fast_mode=True, **case.options)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_torchs_functions_are_out_of_reach_in_these_tests() -> None:
    module = sys.modules["torch.autograd.gradcheck"]
    for check in (torch.autograd.gradcheck, module.gradcheck, module._slow_gradcheck):
        with pytest.raises(NotImplementedError, match=r"^the drop-in called torch"):
            check(torch.sin, (leaf(1),))
