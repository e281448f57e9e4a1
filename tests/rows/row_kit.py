"""What the rows are made of: a wrong rule, its right twin, and what is due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Row:
    """One wrong backward, as it is met in the wild.

    ``inputs`` draws what both are asked with; ``options`` are those of ``check``.
    ``slugs`` are the names that fit; the first of the findings must bear one of them.
    """

    number: int
    what: str
    wrong: Any
    right: Any
    inputs: Callable[[], tuple[Any, ...]]
    slugs: frozenset[str]
    severity: str = "error"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.number:02d}-{self.what.replace(' ', '-')}"


def row(number, what, wrong, right, inputs, *slugs, severity="error", **options):
    return Row(number, what, wrong, right, inputs, frozenset(slugs), severity, options)


def randn(*shape, dtype=torch.float64, seed=1, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    return drawn.to(dtype).requires_grad_()


def positive(*shape, dtype=torch.float64, seed=1, low=0.5, high=2.0):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
    return (low + (high - low) * drawn).to(dtype).requires_grad_()


def packed(t):
    """The memory behind ``t``, as a kernel reads it that assumes it packed."""
    n = t.untyped_storage().nbytes() // t.element_size()
    flat = torch.as_strided(t.detach(), (n,), (1,), 0)
    return flat[t.storage_offset() :][: t.numel()].reshape(t.shape)
