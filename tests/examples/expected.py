"""What each example is, at which inputs it is tried, and what its wrong twin must be told.

`reference` is the same function in plain PyTorch, differentiated by autograd: the truth
that the examples themselves are held against, without gradproof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

# (rows, columns): that of the file first, then two others, one of them odd.
SIZES = ((6, 8), (3, 5), (9, 16))


@dataclass(frozen=True)
class Draw:
    """Random inputs of one dtype; floating-point ones require grad."""

    dtype: torch.dtype
    seed: int
    generator: torch.Generator = field(init=False)

    def __post_init__(self):
        made = torch.Generator().manual_seed(self.seed)
        object.__setattr__(self, "generator", made)

    def randn(self, *shape, scale=1.0, offset=0.0):
        drawn = torch.randn(*shape, dtype=torch.float64, generator=self.generator)
        return (drawn * scale + offset).to(self.dtype).requires_grad_()

    def complex(self, *shape):
        drawn = torch.randn(*shape, dtype=torch.complex128, generator=self.generator)
        wide = self.dtype == torch.float64
        return drawn.to(torch.complex128 if wide else torch.complex64).requires_grad_()

    def index(self, *shape, high):
        return torch.randint(high, shape, generator=self.generator)

    def mask(self, *shape):
        return torch.rand(*shape, generator=self.generator) < 0.4


@dataclass(frozen=True)
class Example:
    """One pair of files. `hidden`: the wrong twin's gradient is right when asked plainly."""

    name: str
    target: str
    slugs: frozenset[str]
    inputs: Callable[[Draw, int, int], tuple[Any, ...]]
    reference: Callable[..., Any]
    hidden: bool = False
    twice: bool = True  # supports a second derivative

    def draw(self, dtype, size=0, seed=0):
        return self.inputs(Draw(dtype, seed), *SIZES[size])


def ridge(x, y, damping=0.5):
    gram = x.mT @ x + damping * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(gram, x.mT @ y)


def fixed_point(x, weight):
    z = torch.zeros_like(x)
    for _ in range(120):
        z = torch.tanh(z @ weight.mT + x)
    return z


def spring_chain(x, v, stiffness, dt=0.1, steps=12):
    for _ in range(steps):
        stretch = torch.diff(F.pad(x, (1, 1)))
        v = v + dt * torch.diff(stiffness * (stretch + stretch**3))
        x = x + dt * v
    return x, v


def small_weight(d, n):
    return d.randn(n, n, scale=0.25 / math.sqrt(n))


TABLE = (
    Example(
        "softplus",
        "Softplus",
        frozenset({"dropped-cotangent"}),
        lambda d, b, n: (d.randn(b, n),),
        F.softplus,
    ),
    Example(
        "silu",
        "SiLU",
        frozenset({"wrong-saved-value"}),
        lambda d, b, n: (d.randn(b, n),),
        F.silu,
    ),
    Example(
        "gelu_tanh",
        "GeluTanh",
        frozenset({"forward-mismatch"}),
        lambda d, b, n: (d.randn(b, n),),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    Example(
        "layer_norm",
        "LayerNorm",
        frozenset({"missing-term"}),
        lambda d, b, n: (d.randn(b, n), d.randn(n), d.randn(n), 1e-5),
        lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps),
    ),
    Example(
        "rms_norm",
        "RMSNorm",
        frozenset({"wrong-factor"}),
        lambda d, b, n: (d.randn(b, n), d.randn(n), 1e-6),
        lambda x, w, eps: F.rms_norm(x, x.shape[-1:], w, eps),
    ),
    Example(
        "cross_entropy",
        "CrossEntropy",
        frozenset({"missing-term", "forward-mismatch"}),
        lambda d, b, n: (d.randn(b, n), d.index(b, high=n), 0.1),
        lambda x, t, s: F.cross_entropy(x, t, label_smoothing=s),
    ),
    Example(
        "attention",
        "Attention",
        frozenset({"wrong-factor"}),
        lambda d, b, n: (d.randn(2, b, n), d.randn(2, b + 1, n), d.randn(2, b + 1, 4)),
        F.scaled_dot_product_attention,
    ),
    Example(
        "embedding",
        "Embedding",
        frozenset({"overwritten-accumulation", "unsummed-broadcast"}),
        lambda d, b, n: (d.randn(5, n), d.index(3, b, high=5)),
        lambda table, index: F.embedding(index, table),
    ),
    Example(
        "linear",
        "Linear",
        frozenset({"transposed-jacobian"}),
        lambda d, b, n: (d.randn(b, n), d.randn(n, n), d.randn(n)),
        F.linear,
    ),
    Example(
        "ridge_solve",
        "RidgeSolve",
        frozenset({"missing-term"}),
        lambda d, b, n: (d.randn(b + n, 3), d.randn(b + n, 2), 0.5),
        ridge,
        twice=False,
    ),
    Example(
        "fixed_point",
        "FixedPoint",
        frozenset({"transposed-jacobian"}),
        lambda d, b, n: (d.randn(b, n), small_weight(d, n)),
        fixed_point,
    ),
    Example(
        "spring_chain",
        "SpringChain",
        frozenset({"wrong-saved-value", "wrong-gradient"}),
        lambda d, b, n: (
            d.randn(n, scale=0.5),
            d.randn(n),
            d.randn(n + 1, scale=0.2, offset=1.0),
            0.1,
            b,
        ),
        spring_chain,
        twice=False,
    ),
    Example(
        "complex_gain",
        "ComplexGain",
        frozenset({"missing-conjugate"}),
        lambda d, b, n: (d.complex(b, n), d.complex(b, n)),
        torch.mul,
    ),
    Example(
        "max_with_index",
        "MaxWithIndex",
        frozenset({"leaked-region"}),
        lambda d, b, n: (d.randn(b, n),),
        lambda x: tuple(x.max(-1)),
    ),
    Example(
        "unit_vector",
        "UnitVector",
        frozenset({"stale-state"}),
        lambda d, b, n: (d.randn(b, n),),
        lambda x: F.normalize(x, dim=-1),
        hidden=True,
    ),
    Example(
        "masked_fill",
        "MaskedFill",
        frozenset({"mutated-cotangent"}),
        lambda d, b, n: (d.randn(b, n), d.mask(b, n), -4.0),
        torch.masked_fill,
        hidden=True,
    ),
    Example(
        "flat_kernel",
        "FlatGate",
        frozenset({"layout-assumed"}),
        lambda d, b, n: (d.randn(b, n), d.randn(b, n)),
        lambda a, b: torch.sigmoid(a) * b,
        twice=False,
        hidden=True,
    ),
)
