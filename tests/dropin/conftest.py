"""The drop-ins must not lean on what they replace."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

TORCH = "torch.autograd.gradcheck"


def forbidden(*_args: Any, **_kwargs: Any) -> Any:
    message = "the drop-in called torch.autograd.gradcheck"
    raise NotImplementedError(message)


@pytest.fixture(autouse=True)
def torch_gradcheck_raises(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Every function of torch's module raises, except where torch is the yardstick."""
    if not getattr(request.module, "COMPARES_WITH_TORCH", False):
        import torch

        module = sys.modules[TORCH]
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType) and value.__module__ == TORCH:
                monkeypatch.setattr(module, name, forbidden)
        monkeypatch.setattr(torch.autograd, "gradcheck", forbidden)
        monkeypatch.setattr(torch.autograd, "gradgradcheck", forbidden)
    return
