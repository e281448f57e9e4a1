"""Two large tensors held against each other, whatever order their elements lie in."""

from collections.abc import Callable
from math import inf, nan

import pytest
import torch
from torch import Tensor

from gradproof.adapters.torch_compare import furthest, same_bits, twins

SHAPES = [(), (1,), (300_000,), (700, 600), (3, 500, 400), (1, 70_000, 1, 5), (0, 4)]


def _turned(t: Tensor) -> Tensor:
    return t if t.ndim < 2 else t.mT.contiguous().mT


def _cut(t: Tensor) -> Tensor:
    return torch.cat([t, t], -1)[..., : t.shape[-1]] if t.ndim else t.clone()


@pytest.mark.parametrize("laid", [torch.clone, _turned, _cut])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_other_number_is_seen(
    shape: tuple[int, ...], laid: Callable[[Tensor], Tensor]
) -> None:
    want = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    got = laid(want.clone())
    assert furthest(got, want) == 0.0
    assert furthest(got, want, 2.0) == (float(want.abs().max()) if want.numel() else 0)
    assert same_bits(got, want)
    assert twins(got, want) is (got.is_contiguous() and want.is_contiguous())
    if not want.numel():
        return
    for place in (tuple(n - 1 for n in shape), tuple(n // 2 for n in shape)):
        for other, far in ((3.0 + want[place].item(), 3.0), (nan, inf)):
            odd = laid(want.clone())
            odd[place] = other
            assert furthest(odd, want) == pytest.approx(far)
            assert not same_bits(odd, want)
            assert not twins(odd, want)
