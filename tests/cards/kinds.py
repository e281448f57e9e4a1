"""Wrong gradients as people write them, each with the names that fit it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import Function

D = torch.float64


@dataclass(frozen=True)
class Kind:
    name: str
    rule: Callable
    inputs: Callable[[], tuple]
    slugs: tuple[str, ...]


KINDS: list[Kind] = []


def rand(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> Tensor:
    g = torch.Generator().manual_seed(seed + 17 * len(shape) + sum(shape))
    return torch.rand(*shape, generator=g, dtype=D) * (high - low) + low


def rule(forward: Callable, backward: Callable, name: str = "Op") -> Callable:
    """A Function of forward(*inputs) → y and backward(g, y, *inputs) → gradients."""

    def run(ctx, *inputs):
        out = forward(*inputs)
        tensors = [a for a in inputs if isinstance(a, Tensor)]
        first = out if isinstance(out, Tensor) else out[0]
        ctx.save_for_backward(first, *tensors)
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in inputs]
        return out

    def back(ctx, *grads):
        y, *tensors = ctx.saved_tensors
        inputs = [tensors.pop(0) if a is None else a for a in ctx.inputs]
        got = backward(*grads, y, *inputs)
        got = got if isinstance(got, tuple) else (got,)
        return (*got, *(None for _ in range(len(inputs) - len(got))))

    body = {"forward": staticmethod(run), "backward": staticmethod(back)}
    return type(name, (Function,), body).apply


def kind(name: str, forward, backward, inputs, *slugs: str) -> None:
    KINDS.append(Kind(name, rule(forward, backward), inputs, slugs))


def softmax_back(g, y):
    return y * (g - (g * y).sum(-1, keepdim=True))


# --- constants and signs -------------------------------------------------------------------

kind(
    "mean loss without 1/n", lambda x, t: ((x - t) ** 2).mean(),
    lambda g, y, x, t: (2 * g * (x - t), -2 * g * (x - t)),
    lambda: (rand(7), rand(7, seed=1)), "wrong-factor",
)  # fmt: skip
kind(
    "attention scores without the scale", lambda q, k: q @ k.T / math.sqrt(4),
    lambda g, y, q, k: (g @ k, g.T @ q / 2), lambda: (rand(3, 4), rand(5, 4)),
    "wrong-factor",
)  # fmt: skip
kind(
    "inverse without its minus", lambda a: torch.linalg.inv(a),
    lambda g, y, a: y.T @ g @ y.T, lambda: (rand(3, 3) + 3 * torch.eye(3, dtype=D),),
    "wrong-sign",
)  # fmt: skip
kind(
    "solve with A in place of its transpose", lambda b, a: torch.linalg.solve(a, b),
    lambda g, y, b, a: torch.linalg.solve(a, g),
    lambda: (rand(4).requires_grad_(), rand(4, 4) + 3 * torch.eye(4, dtype=D)),
    "transposed-jacobian",
)  # fmt: skip
kind(
    "determinant lacks the determinant", lambda a: torch.det(a),
    lambda g, y, a: g * torch.linalg.inv(a).T,
    lambda: (rand(3, 3) + 2 * torch.eye(3, dtype=D),), "missing-factor",
)  # fmt: skip
kind(
    "norm lacks 1/norm", lambda x: x.norm(), lambda g, y, x: g * x,
    lambda: (rand(6, low=0.5, high=2.0),), "missing-factor",
)  # fmt: skip
kind(
    "temperature forgotten", lambda x, t: torch.softmax(x / t, -1),
    lambda g, y, x, t: (softmax_back(g, y), -(softmax_back(g, y) * x).sum() / t**2),
    lambda: (rand(3, 4), torch.tensor(0.7, dtype=D)), "wrong-factor", "missing-factor",
)  # fmt: skip
kind(
    "layer norm with the unbiased variance",
    lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
    lambda g, y, x: (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True))
    / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
    lambda: (rand(4, 6),), "wrong-factor", "forward-mismatch", "missing-factor",
)  # fmt: skip

# --- terms ---------------------------------------------------------------------------------

kind(
    "layer norm, the mean held fixed",
    lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
    lambda g, y, x: (g - y * (g * y).mean(-1, keepdim=True))
    / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
    lambda: (rand(4, 6),), "missing-term",
)  # fmt: skip
kind(
    "log softmax without its sum", lambda x: torch.log_softmax(x, -1),
    lambda g, y, x: g, lambda: (rand(3, 5),), "missing-term",
)  # fmt: skip
kind(
    "softmax with plus", lambda x: torch.softmax(x, -1),
    lambda g, y, x: y * (g + (g * y).sum(-1, keepdim=True)), lambda: (rand(3, 5),),
    "wrong-sign",
)  # fmt: skip
kind(
    "swish without the second product", lambda x: x * torch.sigmoid(x),
    lambda g, y, x: g * torch.sigmoid(x), lambda: (rand(9, low=-3, high=3),),
    "missing-term", "missing-factor",
)  # fmt: skip
kind(
    "product rule, one half", lambda x: x * torch.sin(x),
    lambda g, y, x: g * torch.sin(x), lambda: (rand(9, low=0.3, high=3),),
    "missing-term",
)  # fmt: skip
kind(
    "quadratic form of A alone", lambda x, a: x @ a @ x,
    lambda g, y, x, a: g * (a @ x), lambda: (rand(4).requires_grad_(), rand(4, 4)),
    "missing-term", "wrong-gradient",
)  # fmt: skip
kind(
    "tied weight counted once", lambda x, w: torch.tanh(x @ w) @ w.T,
    lambda g, y, x, w: (
        ((g @ w) * (1 - torch.tanh(x @ w) ** 2)) @ w.T,
        g.T @ torch.tanh(x @ w),
    ),
    lambda: (rand(3, 4), rand(4, 2)), "missing-term", "wrong-gradient",
)  # fmt: skip
kind(
    "projection without the inner product", lambda x: x / x.norm(dim=-1, keepdim=True),
    lambda g, y, x: g / x.norm(dim=-1, keepdim=True), lambda: (rand(4, 3, low=0.3),),
    "missing-term",
)  # fmt: skip

# --- indices, axes, regions ----------------------------------------------------------------

kind(
    "sort without undoing the order", lambda x: torch.sort(x).values,
    lambda g, y, x: g, lambda: (rand(7),), "shifted-index",
)  # fmt: skip
kind(
    "convolution with its kernel unflipped",
    lambda x, w: torch.nn.functional.conv1d(x[None, None], w[None, None], padding=1)[0, 0],
    lambda g, y, x, w: torch.nn.functional.conv1d(g[None, None], w[None, None], padding=1)[0, 0],
    lambda: (rand(8).requires_grad_(), rand(3)), "transposed-jacobian", "shifted-index",
)  # fmt: skip
kind(
    "difference in time, the later half lost", lambda x: x[1:] - x[:-1],
    lambda g, y, x: torch.cat([-g, g.new_zeros(1)]),
    lambda: (rand(7),), "missing-term", "overwritten-accumulation",
)  # fmt: skip
kind(
    "embedding with the padding row trained",
    lambda w, i: torch.nn.functional.embedding(i, w) * (i != 0)[:, None],
    lambda g, y, w, i: torch.zeros_like(w).index_add(0, i, g),
    lambda: (rand(4, 3), torch.tensor([0, 2, 1, 0, 3])), "leaked-region",
)  # fmt: skip
kind(
    "causal mask forgotten", lambda s: torch.tril(torch.ones(4, 4, dtype=D)) * torch.sin(s),
    lambda g, y, s: g * torch.cos(s), lambda: (rand(4, 4),), "leaked-region",
)  # fmt: skip
kind(
    "padding of a window gets gradient back to front", lambda x: x.flip(0),
    lambda g, y, x: g, lambda: (rand(5),), "shifted-index",
)  # fmt: skip
kind(
    "sum over the batch forgotten, a mean instead", lambda x, w: x * w,
    lambda g, y, x, w: (g * w, (g * x).mean(0)), lambda: (rand(5, 3), rand(3)),
    "wrong-factor",
)  # fmt: skip
kind(
    "max over rows sends to all", lambda x: x.max(-1).values,
    lambda g, y, x: g[:, None].expand_as(x), lambda: (rand(3, 4),), "leaked-region",
)  # fmt: skip
kind(
    "last row of an odd batch", lambda x: torch.sin(x),
    lambda g, y, x: torch.cat([(g * torch.cos(x))[:4], torch.zeros_like(x[4:])]),
    lambda: (rand(5, 3),), "unwritten-region",
)  # fmt: skip
kind(
    "softmax over the other axis", lambda x: torch.softmax(x, 0),
    lambda g, y, x: softmax_back(g, y), lambda: (rand(4, 3),), "wrong-axis",
)  # fmt: skip
kind(
    "scatter overwrites", lambda x, i: x[i] ** 2,
    lambda g, y, x, i: torch.zeros_like(x).scatter(0, i, 2 * g * x[i]),
    lambda: (rand(5, low=0.5), torch.tensor([1, 1, 3, 0, 3, 3])),
    "overwritten-accumulation",
)  # fmt: skip
kind(
    "bias summed over one axis too few", lambda x, b: x + b[:, None, None],
    lambda g, y, x, b: (g, g[:, 0].sum(-1)), lambda: (rand(2, 3, 4), rand(2)),
    "unsummed-broadcast", "overwritten-accumulation",
)  # fmt: skip

# --- values --------------------------------------------------------------------------------

kind(
    "leaky slope of another number", lambda x: torch.where(x > 0, x, 0.2 * x),
    lambda g, y, x: torch.where(x > 0, g, 0.1 * g), lambda: (rand(9),),
    "wrong-at-value", "wrong-factor",
)  # fmt: skip
kind(
    "hard sigmoid without its mask", lambda x: (x / 6 + 0.5).clamp(0, 1),
    lambda g, y, x: g / 6, lambda: (rand(9, low=-7, high=7),), "leaked-region",
)  # fmt: skip
kind(
    "huber beyond its knee",
    lambda x: torch.where(x.abs() < 1, 0.5 * x * x, x.abs() - 0.5),
    lambda g, y, x: g * x, lambda: (rand(12, low=-2, high=2),), "wrong-at-value",
)  # fmt: skip
kind(
    "elu from its own input", lambda x: torch.where(x > 0, x, torch.expm1(x)),
    lambda g, y, x: g * torch.where(x > 0, torch.ones_like(x), x + 1),
    lambda: (rand(9),), "wrong-at-value", "wrong-saved-value",
)  # fmt: skip
kind(
    "sigmoid from its input", lambda x: torch.sigmoid(x),
    lambda g, y, x: g * x * (1 - x), lambda: (rand(9, low=0.2, high=2.0),),
    "missing-factor", "wrong-saved-value",
)  # fmt: skip
kind(
    "tanh squared lost", lambda x: torch.tanh(x), lambda g, y, x: g * (1 - y),
    lambda: (rand(9, low=-2, high=2),), "missing-factor",
)  # fmt: skip
kind(
    "mish by silu", lambda x: torch.nn.functional.mish(x),
    lambda g, y, x: g * (torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x)))),
    lambda: (rand(9, low=-3, high=3),), "forward-mismatch",
)  # fmt: skip
kind(
    "square root at zero", lambda x: x.abs().sqrt() * (x > 0),
    lambda g, y, x: g * (x > 0) / (2 * x.clamp(min=0).sqrt()),
    lambda: (torch.tensor([1.0, -2.0, 3.0, -0.5], dtype=D),), "nan-gradient",
)  # fmt: skip
kind(
    "batch norm that reads one sample",
    lambda x, w: x * w.sum(-1, keepdim=True), lambda g, y, x, w: (
        g * w[:1].sum(-1, keepdim=True), (g * x).sum(-1, keepdim=True).expand_as(w)),
    lambda: (rand(3, 4), rand(3, 2)), "wrong-saved-value", "missing-factor",
)  # fmt: skip

# --- the cotangent -------------------------------------------------------------------------

kind(
    "loss that returns its stored gradient", lambda x: (x**3).sum(),
    lambda g, y, x: 3 * x**2, lambda: (rand(5, low=0.5),), "dropped-cotangent",
)  # fmt: skip
kind(
    "upstream normalised", lambda x: x**2, lambda g, y, x: 2 * x * g / g.norm(),
    lambda: (rand(5, low=0.5),), "nonlinear-cotangent",
)  # fmt: skip
kind(
    "upstream of the first row for all", lambda x: torch.sin(x),
    lambda g, y, x: g[:1] * torch.cos(x), lambda: (rand(4, 3),),
    "unsummed-broadcast", "cotangent-read-as-scalar", "shifted-index",
    "wrong-gradient", "wrong-axis",
)  # fmt: skip
kind(
    "second output by elif", lambda x: (torch.sin(x), x**2),
    lambda g, h, y, x: g * torch.cos(x) if bool(g.any()) else 2 * x * h,
    lambda: (rand(5, low=0.2),), "ignored-output", "nonlinear-cotangent",
)  # fmt: skip
kind(
    "upstream as a mask", lambda x: x**2, lambda g, y, x: 2 * x * (g > 0),
    lambda: (rand(5, low=0.5),), "nonlinear-cotangent",
)  # fmt: skip

# --- what a sharper eye tells -----------------------------------------------------------------


def deep(x, w):
    z = torch.zeros_like(x)
    for _ in range(60):
        z = torch.tanh(z @ w.T + x)
    return z


def one_step(g, y, x, w):
    s = g * (1 - y * y)
    return s, s.T @ y


def grouped(x, eps):
    s = x.reshape(2, 2, 6)
    var = s.var(-1, keepdim=True, unbiased=False)
    return ((s - s.mean(-1, keepdim=True)) / (var + eps).sqrt()).reshape(2, 12)


def grouped_back(g, y, x, eps=1e-5):
    s, g = x.reshape(2, 2, 6), g.reshape(2, 2, 6)
    r = 1 / (s.var(-1, keepdim=True, unbiased=False) + eps).sqrt()
    h = (s - s.mean(-1, keepdim=True)) * r
    inner = h * (g * h).mean(-1, keepdim=True)
    return ((g - g.mean(-1, keepdim=True) - inner) * r).reshape(2, 12)


def half_cosine(g, y, a, b):
    lengths = a.norm(dim=-1, keepdim=True) * b.norm(dim=-1, keepdim=True)
    return g[:, None] * b / lengths, g[:, None] * a / lengths


def prelu(x, w):
    return torch.where(x > 0, x, w * x)


def slopes(x, w):
    return torch.where(x > 0, torch.ones_like(x), w.expand_as(x))


TURNS = (-1.0) ** torch.arange(9)
ORDER = torch.randperm(1024, generator=torch.Generator().manual_seed(1))
CLASSES = torch.tensor([0, 2, 1])
F = torch.nn.functional

kind(
    "label smoothing forgotten", lambda x: F.cross_entropy(x, CLASSES, label_smoothing=0.1),
    lambda g, y, x: g * (torch.softmax(x, -1) - F.one_hot(CLASSES, 5)) / 3,
    lambda: (rand(3, 5),), "missing-term",
)  # fmt: skip
kind(
    "softmax forgotten in a cross-entropy", lambda x: F.cross_entropy(x, CLASSES),
    lambda g, y, x: -g * F.one_hot(CLASSES, 5) / 3, lambda: (rand(3, 5),), "missing-term",
)  # fmt: skip
kind(
    "auxiliary loss forgotten in one of its inputs",
    lambda x, a: F.cross_entropy(x, CLASSES) + 0.3 * F.cross_entropy(x + a, CLASSES),
    lambda g, y, x, a: (
        g * (torch.softmax(x, -1) - F.one_hot(CLASSES, 5)) / 3,
        0.3 * g * (torch.softmax(x + a, -1) - F.one_hot(CLASSES, 5)) / 3,
    ),
    lambda: (rand(3, 5), rand(3, 5, seed=2)), "missing-term",
)  # fmt: skip
kind(
    "an error that alternates", lambda x: torch.sin(x),
    lambda g, y, x: g * (torch.cos(x) + 0.01 * TURNS), lambda: (rand(9),), "extra-term",
)  # fmt: skip
kind(
    "a factor that alternates", lambda x: torch.sin(x),
    lambda g, y, x: g * torch.cos(x) * (1 + 0.01 * TURNS), lambda: (rand(9),), "wrong-factor",
)  # fmt: skip
kind(
    "a thousand elements out of order", lambda x: torch.sin(x),
    lambda g, y, x: (g * torch.cos(x))[ORDER], lambda: (rand(1024),), "shifted-index",
)  # fmt: skip
kind(
    "eigenvectors transposed", lambda a: torch.linalg.eigvalsh(a + a.T),
    lambda g, y, a: 2 * (v := torch.linalg.eigh(a + a.T)[1]).T @ torch.diag(g) @ v,
    lambda: (rand(4, 4),), "transposed-jacobian", "wrong-gradient",
)  # fmt: skip
kind(
    "slope of a leaky unit summed over all", prelu,
    lambda g, y, x, w: (g * slopes(x, w), (g * x).sum(0)),
    lambda: (rand(6, 3), rand(3)), "leaked-region",
)  # fmt: skip
kind(
    "slope of a leaky unit with its mask inverted", prelu,
    lambda g, y, x, w: (g * slopes(x, w), (g * x * (x > 0)).sum(0)),
    lambda: (rand(6, 3), rand(3)), "leaked-region",
)  # fmt: skip
kind(
    "deep equilibrium through one step", deep, one_step,
    lambda: (rand(2, 4), 0.4 * rand(4, 4)), "missing-factor",
)  # fmt: skip
kind(
    "cosine similarity without its projection",
    lambda a, b: F.cosine_similarity(a, b, dim=-1), half_cosine,
    lambda: (rand(4, 5), rand(4, 5, seed=3)), "missing-term",
)  # fmt: skip
kind(
    "group norm with another epsilon", lambda x: grouped(x, 0.1), grouped_back,
    lambda: (rand(2, 12),), "forward-mismatch",
)  # fmt: skip
kind(
    "a product of one matrix with itself", lambda x: x.T @ x, lambda g, y, x: x @ g,
    lambda: (rand(5, 3),), "missing-term",
)  # fmt: skip

# --- complex -------------------------------------------------------------------------------


def crand(*shape: int, seed: int = 0) -> Tensor:
    return torch.complex(rand(*shape, seed=seed), rand(*shape, seed=seed + 1))


kind(
    "complex square without conj", lambda z: z * z, lambda g, y, z: 2 * g * z,
    lambda: (crand(4),), "missing-conjugate",
)  # fmt: skip
kind(
    "power spectrum halved", lambda z: (z * z.conj()).real, lambda g, y, z: g * z,
    lambda: (crand(4),), "wrong-factor",
)  # fmt: skip
kind(
    "half spectrum counted once", lambda x: torch.fft.rfft(x),
    lambda g, y, x: torch.fft.irfft(g, n=x.shape[0]) * x.shape[0],
    lambda: (rand(8),), "missing-conjugate", "wrong-factor",
)  # fmt: skip
kind(
    "fourier transform by itself", lambda z: torch.fft.fft(z),
    lambda g, y, z: torch.fft.fft(g), lambda: (crand(4),),
    "missing-conjugate", "transposed-jacobian", "shifted-index",
)  # fmt: skip
