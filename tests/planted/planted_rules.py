"""Right rules that no card was tuned for: functions on arrays, with exact Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gradproof.space import Leaf, Space


@dataclass(frozen=True, eq=False)
class Case:
    """A function of named arrays; ``frozen`` is it with a path held fixed."""

    name: str
    f: Callable[..., tuple[np.ndarray, ...]]
    inputs: dict[str, np.ndarray]
    frozen: Callable[..., tuple[np.ndarray, ...]] | None = None  # f(inputs, inputs0)
    elementwise: bool = False
    scalars: dict[str, float] = field(default_factory=dict)
    turned: Callable[..., tuple[np.ndarray, ...]] | None = None  # along another axis
    neighbour: Callable[..., tuple[np.ndarray, ...]] | None = None
    broadcast: tuple[str, int] | None = None  # (leaf, axis of the output)
    accumulates: str = ""  # leaf to which several outputs contribute by index
    known: dict = field(default_factory=dict)
    masks: str = ""  # leaf of which some entries have no effect


def to_flat(arrays) -> np.ndarray:
    out = []
    for a in arrays:
        a = np.asarray(a)
        if np.iscomplexobj(a):
            a = np.stack([a.real, a.imag], -1)
        out.append(np.asarray(a, float).ravel())
    return np.concatenate(out) if out else np.zeros(0)


def space_of(named, precision: str) -> Space:
    return Space.of(
        [
            Leaf(path, np.shape(a), precision, bool(np.iscomplexobj(a)))
            for path, a in named
        ]
    )


def split(space: Space, v: np.ndarray) -> list[np.ndarray]:
    out = []
    for leaf in space:
        part = v[leaf.slice].reshape(leaf.view_shape)
        out.append(part[..., 0] + 1j * part[..., 1] if leaf.is_complex else part)
    return out


_STENCIL = np.array([4 / 5, -1 / 5, 4 / 105, -1 / 280])


def jacobian(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Eighth-order central differences, h = 0.005: exact to about 1e-13."""
    h = 0.005
    cols = []
    for j in range(len(x)):
        total = 0.0
        for k, c in enumerate(_STENCIL, 1):
            e = np.zeros(len(x))
            e[j] = k * h
            total = total + c * (f(x + e) - f(x - e))
        cols.append(total / h)
    return np.stack(cols, 1) if cols else np.zeros((len(f(x)), 0))


def _softmax(z, axis=-1):
    e = np.exp(z - z.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _norm(x, mean, var):
    return (x - mean) / np.sqrt(var + 1e-5)


def _layernorm(x, w, b, axis=-1):
    return _norm(x, x.mean(axis, keepdims=True), x.var(axis, keepdims=True)) * w + b


def _rms(x, r):
    return x / np.sqrt((r * r).mean(-1, keepdims=True) + 1e-6)


def _scan(x, a):
    h, out = np.zeros_like(x[0]), []
    for t in range(len(x)):
        h = a * h + x[t]
        out.append(h)
    return np.stack(out)


def _conv(x, w):
    n = len(x) - len(w) + 1
    return sum(w[k] * x[k : k + n] for k in range(len(w)))


def cases(seed: int) -> list[Case]:
    r = np.random.default_rng(seed)

    def n(*shape, scale=1.0, shift=0.0):
        return r.normal(size=shape) * scale + shift

    def away(*shape):
        return np.sign(n(*shape)) * (0.15 + np.abs(n(*shape)))

    ids = np.array([0, 2, 2, 1, 4, 2])
    mask = np.array([1.0, 0, 2, 1, 0, 1, 1.5])
    erf_gelu = np.vectorize(lambda v: 0.5 * v * (1 + _erf(v / np.sqrt(2))))

    drop = (np.arange(16) % 3 != r.integers(3)) * 2.0

    def tanh_gelu(x):
        return (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),)

    def softclip(x, s):
        return (s * np.tanh(x / s),)

    return [
        Case("tanh", lambda x: (np.tanh(x),), {"x": n(3, 4)}, elementwise=True),
        Case(
            "swish", lambda x: (x / (1 + np.exp(-x)),), {"x": n(3, 5)}, elementwise=True
        ),
        Case(
            "damped", lambda x: (np.sin(2 * x) * np.exp(-0.5 * x),), {"x": n(11)},
            elementwise=True,
        ),
        Case("gelu", tanh_gelu, {"x": n(9)}, elementwise=True,
             neighbour=lambda x: (erf_gelu(x),)),
        Case("product", lambda x, y: (x * y * y,), {"x": n(2, 5), "y": n(2, 5)}),
        Case("matmul", lambda a, b: (a @ b,), {"a": n(4, 3), "b": n(3, 5)}),
        Case("square_matmul", lambda a, x: (a @ x,), {"a": n(4, 4), "x": n(4)}),
        Case(
            "softmax", lambda x: (_softmax(x),), {"x": n(3, 5)},
            frozen=lambda x, x0: (np.exp(x - x0.max(-1, keepdims=True))
                                  / np.exp(x0 - x0.max(-1, keepdims=True))
                                  .sum(-1, keepdims=True),),
            turned=lambda x: (_softmax(x, 0),),
        ),
        Case(
            "layernorm", lambda x, w, b: (_layernorm(x, w, b),),
            {"x": n(3, 6), "w": n(6, shift=1.0), "b": n(6)},
            frozen=lambda x, w, b, x0, w0, b0: (
                _norm(x, x.mean(-1, keepdims=True), x0.var(-1, keepdims=True)) * w + b,
            ),
            broadcast=("b", 0),
        ),
        Case(
            "rmsnorm", lambda x, w: (_rms(x, x) * w,),
            {"x": n(4, 5), "w": n(5, shift=1.0)},
            frozen=lambda x, w, x0, w0: (_rms(x, x0) * w,),
            broadcast=("w", 0),
        ),
        Case("gather", lambda x: (x[ids],), {"x": n(5, 2)}, accumulates="x"),
        Case("conv1d", lambda x, w: (_conv(x, w),), {"x": n(9), "w": n(3)},
             accumulates="x"),
        Case(
            "cumsum", lambda x: (np.cumsum(np.sin(x), -1),), {"x": n(4, 4)},
            turned=lambda x: (np.cumsum(np.sin(x), 0),), accumulates="x",
        ),
        Case("logsumexp", lambda x: (np.log(np.exp(x).sum(-1)),), {"x": n(3, 5)}),
        Case("outer", lambda a, b: (np.outer(a, b),), {"a": n(4), "b": n(5)}),
        Case("norm", lambda x: (np.sqrt((x * x).sum(-1)),), {"x": n(3, 4)}),
        Case(
            "attention",
            lambda q, k, v: (_softmax(q @ k.T) @ v,),
            {"q": n(3, 4, scale=0.7), "k": n(3, 4, scale=0.7), "v": n(3, 4)},
        ),
        Case("complex_product", lambda a, b: (a * b * b,),
             {"a": n(4) + 1j * n(4), "b": n(4) + 1j * n(4)}),
        Case("complex_matvec", lambda m, z: (m @ z,),
             {"m": n(3, 3) + 1j * n(3, 3), "z": n(3) + 1j * n(3)}),
        Case("two_outputs", lambda x, c: (2 * x, np.sin(x * c)),
             {"x": n(5), "c": n(5, shift=1.0)}),
        Case("polar", lambda x, y: (np.hypot(x, y), np.arctan2(y, x)),
             {"x": away(6), "y": away(6)}),
        Case(
            "variance", lambda x: (x.var(-1),), {"x": n(3, 5)},
            turned=None,
        ),
        Case(
            "bias", lambda x, b: (np.tanh(x + b),), {"x": n(3, 4), "b": n(4)},
            broadcast=("b", 0),
        ),
        Case("quadratic", lambda x, a: (x @ a @ x,), {"x": n(5), "a": n(5, 5)}),
        Case("softclip", softclip, {"x": n(7, scale=2.0), "s": np.array(1.3)}),
        Case("mse", lambda x, t: (((x - t) ** 2).mean(),), {"x": n(6), "t": n(6)}),
        Case("scan", lambda x, a: (_scan(x, a),),
             {"x": n(5, 2), "a": r.uniform(0.3, 0.9, 2)}, accumulates="x"),
        Case("inverse", lambda a: (np.linalg.inv(a),),
             {"a": n(3, 3) * 0.4 + 2 * np.eye(3)}),
        Case("masked", lambda x: (np.sin(x) * mask,), {"x": n(7)}, masks="x"),
        Case("clipped", lambda x: (np.clip(x, -1, 1) ** 2 * x.shape[0],),
             {"x": np.sign(n(12)) * r.choice([0.4, 0.7, 1.4, 2.0, 0.2], 12)
              * r.uniform(0.9, 1.1, 12)}, masks="x"),
        Case("dropout", lambda x: (x * drop,), {"x": n(16)}),
        Case("identity", lambda x: (x.copy(),), {"x": n(6)}),
        Case("round", lambda x: (np.round(x),), {"x": np.round(n(6, scale=2)) + 0.2}),
        Case("sign", lambda x: (np.sign(x),), {"x": away(5)}),
        Case("segment_mean", lambda x: (np.stack([x[:2].mean(0), x[2:].mean(0)]),),
             {"x": n(5, 3)}),
    ]  # fmt: skip


def _erf(v: float) -> float:
    from math import erf

    return erf(v)
