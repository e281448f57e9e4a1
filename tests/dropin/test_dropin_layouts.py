"""Inputs of every layout, tensor-likes and subclasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from dropin_cases import leaf

from gradproof.adapters.torch_gradcheck import GradcheckError, gradcheck, gradgradcheck
from gradproof.adapters.torch_gradcheck_tensors import (
    fully_specified,
    positions,
    stored,
    with_entries,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),
]

BOTH = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
LAYOUTS = {
    "coo": torch.sparse_coo,
    "csr": torch.sparse_csr,
    "csc": torch.sparse_csc,
    "bsr": torch.sparse_bsr,
    "bsc": torch.sparse_bsc,
}
EACH = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float64, torch.complex128], ids=["real", "complex"]
)


def made(layout: torch.layout, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Shape (4, 6), about half of it stored."""
    values = leaf(4, 6, dtype=dtype).detach()
    kept = values * (torch.arange(24).reshape(4, 6) % 3 == 0)
    blocked = layout in (torch.sparse_bsr, torch.sparse_bsc)
    block = (2, 3) if blocked else None
    if blocked:
        kept[2:, :3] = 0
    return kept.to_sparse(layout=layout, blocksize=block).requires_grad_()


def full_gradient(x: torch.Tensor) -> torch.Tensor:
    """x², with a gradient at every element."""
    return x.to_dense(masked_grad=False) ** 2


def masked_gradient(x: torch.Tensor) -> torch.Tensor:
    """x², with a gradient only where x stores something."""
    return x.to_dense(masked_grad=True) ** 2


def wrong_gradient(x: torch.Tensor) -> torch.Tensor:
    y = x.to_dense(masked_grad=False)
    return y * y.detach()


@BOTH
@EACH
@DTYPES
def test_every_element_counts_unless_masked(
    layout: torch.layout, dtype: torch.dtype, fast: bool
) -> None:
    x = made(layout, dtype)
    for masked in (None, False):
        assert gradcheck(full_gradient, (x,), masked=masked, fast_mode=fast)


@BOTH
@EACH
@DTYPES
def test_masked_looks_at_stored_elements_only(
    layout: torch.layout, dtype: torch.dtype, fast: bool
) -> None:
    assert gradcheck(
        masked_gradient, (made(layout, dtype),), masked=True, fast_mode=fast
    )


@EACH
def test_a_masked_gradient_is_wrong_when_every_element_counts(
    layout: torch.layout,
) -> None:
    with pytest.raises(GradcheckError, match=r"^Jacobian mismatch for output 0 with"):
        gradcheck(lambda x: x.to_dense(masked_grad=True) * 2, (made(layout),))


@BOTH
@EACH
def test_a_wrong_gradient_of_a_sparse_input_is_seen(
    layout: torch.layout, fast: bool
) -> None:
    before = made(layout).to_dense()
    x = made(layout)
    with pytest.raises(GradcheckError, match=r"^Jacobian mismatch for output 0 with"):
        gradcheck(wrong_gradient, (x,), fast_mode=fast)
    assert torch.equal(x.to_dense(), before)


@BOTH
def test_dense_and_sparse_inputs_together(fast: bool) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y.coalesce().to_dense()

    dense, sparse = leaf(2, 2), leaf(2, 2).detach().to_sparse().requires_grad_()
    assert gradcheck(fn, (dense, sparse), masked=True, fast_mode=fast)
    assert gradgradcheck(torch.mul, (dense, leaf(2, 2)), fast_mode=fast)


@BOTH
def test_elements_stored_twice_and_dense_dimensions(fast: bool) -> None:
    indices = torch.tensor([[0, 1, 1], [2, 0, 0]])
    values = leaf(3, 2).detach()
    x = torch.sparse_coo_tensor(indices, values, (2, 3, 2)).requires_grad_()
    assert gradcheck(full_gradient, (x,), fast_mode=fast)
    assert gradcheck(lambda x: x.to_dense() * 3, (x,), masked=True, fast_mode=fast)


def test_forward_mode_refuses_sparse_inputs_even_when_empty() -> None:
    x = torch.zeros(2, 2, dtype=torch.float64).to_sparse().requires_grad_()
    with pytest.raises(NotImplementedError, match="storage of SparseTensorImpl"):
        gradcheck(full_gradient, (x,), check_forward_ad=True)


def test_batched_gradients_of_sparse_inputs_are_refused() -> None:
    x = made(torch.sparse_coo)
    with pytest.raises(
        GradcheckError, match=r"^While computing batched gradients, got"
    ):
        gradcheck(lambda x: x.to_dense(), (x,), masked=True, check_batched_grad=True)


@EACH
@DTYPES
def test_positions_of_stored_values(layout: torch.layout, dtype: torch.dtype) -> None:
    x = made(layout, dtype).detach()
    flat = x.to_dense().reshape(-1)
    assert torch.equal(flat[positions(x)], stored(x).reshape(-1))
    assert torch.equal(with_entries(x, flat).to_dense(), x.to_dense())


@EACH
def test_positions_in_batches_with_dense_dimensions(layout: torch.layout) -> None:
    blocked = layout in (torch.sparse_bsr, torch.sparse_bsc)
    values = torch.arange(1.0, 97.0, dtype=torch.float64).reshape(2, 4, 6, 2)
    x = (
        values.to_sparse(3)
        if layout is torch.sparse_coo
        else values.to_sparse(
            layout=layout, blocksize=(2, 3) if blocked else None, dense_dim=1
        )
    )
    assert torch.equal(values.reshape(-1)[positions(x)], stored(x).reshape(-1))
    full = fully_specified(x.requires_grad_())
    assert torch.equal(full.to_dense(), values)
    assert full.requires_grad
    assert full.layout is layout
    assert stored(full).numel() == values.numel()


@EACH
def test_fully_specified_stores_zeros_too(layout: torch.layout) -> None:
    x = made(layout)
    full = fully_specified(x)
    assert stored(x).numel() < x.numel()
    assert stored(full).numel() == x.numel()
    assert torch.equal(full.to_dense(), x.to_dense())


def f32(*shape: int) -> torch.Tensor:
    return leaf(*shape, dtype=torch.float32).detach()


@BOTH
def test_mkldnn_inputs(fast: bool) -> None:
    a, b = f32(10).requires_grad_(), f32(10).to_mkldnn().requires_grad_()
    options = {"atol": 1e-1, "fast_mode": fast}
    with pytest.warns(UserWarning, match="Input #[01] requires gradient"):
        assert gradcheck(lambda x, y: x + y.to_dense(), (a, b), **options)
    options["atol"] = 1e-3
    with pytest.warns(UserWarning, match="Input #[01] requires gradient"):
        assert not gradcheck(
            lambda x, y: x + y.to_dense() * x.detach(),
            (a, b),
            raise_exception=False,
            **options,
        )
    assert torch.equal(b.to_dense(), f32(10))


@BOTH
def test_mkldnn_inputs_have_no_forward_mode(fast: bool) -> None:
    x = torch.ones(1).to_mkldnn().requires_grad_()
    options = {"atol": 1e-1, "rtol": 1e-1, "fast_mode": fast}
    with (
        pytest.warns(UserWarning, match="Input #0 requires gradient"),
        pytest.raises(
            ValueError,
            match=r"^MKLDNN inputs are not support for forward AD gradcheck\.$",
        ),
    ):
        gradcheck(
            lambda x: x.to_dense(),
            (x,),
            check_forward_ad=True,
            raise_exception=False,
            **options,
        )


class Subclass(torch.Tensor):
    pass


@BOTH
def test_a_subclass_of_tensor(fast: bool) -> None:
    x = leaf(3).detach().as_subclass(Subclass).requires_grad_()
    assert gradcheck(torch.sin, (x,), fast_mode=fast, check_forward_ad=True)
    with pytest.raises(GradcheckError, match=r"^Jacobian mismatch"):
        gradcheck(lambda x: x * x.detach(), (x,), fast_mode=fast)


def opened(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(opened(v) for v in value)
    return value.held if isinstance(value, Box) else value


def boxed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(boxed(v) for v in value)
    return Box(value) if isinstance(value, torch.Tensor) else value


class Box:
    """Stands for a tensor, and is none."""

    held: torch.Tensor

    def __init__(self, held: torch.Tensor) -> None:
        self.__dict__["held"] = held

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.held, name)
        if not callable(found) or isinstance(found, torch.device):
            return boxed(found)
        return lambda *args, **kwargs: boxed(found(*opened(args), **kwargs))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.held, name, opened(value))

    def __getitem__(self, key: Any) -> Any:
        return boxed(self.held[key])

    def __add__(self, other: Any) -> Any:
        return boxed(self.held + opened(other))

    def __sub__(self, other: Any) -> Any:
        return boxed(self.held - opened(other))

    def __truediv__(self, other: Any) -> Any:
        return boxed(self.held / opened(other))

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = {name: opened(value) for name, value in (kwargs or {}).items()}
        return boxed(func(*opened(args), **named))


@BOTH
def test_a_tensor_like(fast: bool) -> None:
    a, b = Box(leaf(2)), Box(leaf(2) * 2)
    assert gradcheck(torch.mul, (a, b), fast_mode=fast) is True
    assert gradgradcheck(torch.mul, (a, b), fast_mode=fast) is True
