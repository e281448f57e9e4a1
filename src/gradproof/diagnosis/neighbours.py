"""Functions that are taken for one another, by their slopes."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt

import numpy as np

from gradproof.space import Vector

Slope = Callable[[Vector], Vector]


def _sigmoid(x: Vector) -> Vector:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _gelu_erf(x: Vector) -> Vector:
    cdf = np.array([0.5 * (1.0 + erf(v / sqrt(2.0))) for v in x])
    return np.asarray(cdf + x * np.exp(-0.5 * x * x) / sqrt(2.0 * pi))


def _gelu_tanh(x: Vector) -> Vector:
    """Hendrycks and Gimpel 2016, section 2: the approximation by tanh."""
    c = sqrt(2.0 / pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    inner = c * (1.0 + 3.0 * 0.044715 * x * x)
    return np.asarray(0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner)


def _gelu_sigmoid(x: Vector) -> Vector:
    s = _sigmoid(1.702 * x)
    return np.asarray(s + 1.702 * x * s * (1.0 - s))


def _silu(x: Vector) -> Vector:
    s = _sigmoid(x)
    return np.asarray(s + x * s * (1.0 - s))


def _softplus_mish(x: Vector) -> Vector:
    t = np.tanh(np.log1p(np.exp(x)))
    return np.asarray(t + x * (1.0 - t * t) * _sigmoid(x))


def _elu(x: Vector) -> Vector:
    return np.asarray(np.where(x > 0, 1.0, np.exp(np.minimum(x, 0.0))))


def _selu(x: Vector) -> Vector:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return np.asarray(scale * np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0.0))))


NEIGHBOURS: tuple[dict[str, Slope], ...] = (
    {
        "GELU by erf": _gelu_erf,
        "GELU by tanh": _gelu_tanh,
        "GELU by sigmoid": _gelu_sigmoid,
        "SiLU": _silu,
        "Mish": _softplus_mish,
    },
    {"ELU": _elu, "SELU": _selu, "ReLU": lambda x: np.asarray((x > 0).astype(float))},
    {
        "tanh": lambda x: np.asarray(1.0 - np.tanh(x) ** 2),
        "sigmoid": lambda x: np.asarray(_sigmoid(x) * _sigmoid(-x)),
        "softsign": lambda x: np.asarray(1.0 / (1.0 + np.abs(x)) ** 2),
        "arctan": lambda x: np.asarray(1.0 / (1.0 + x * x)),
        "erf": lambda x: np.asarray(2.0 / sqrt(pi) * np.exp(-x * x)),
        "hard tanh": lambda x: np.asarray((np.abs(x) < 1).astype(float)),
    },
    {
        "softplus": _sigmoid,
        "ReLU": lambda x: np.asarray((x > 0).astype(float)),
        "log(1 + x²)": lambda x: np.asarray(2.0 * x / (1.0 + x * x)),
    },
)
