"""Linear functionals that read a derivative off values at given steps.

Everything here depends on the steps alone, never on a function, and is cached by the
ratios of the steps, so that scaling t changes nothing but the final division.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gradproof.numdiff.types import Array

ODD_TERMS = 6  # t, t³, …, t¹¹
SIDE_TERMS = 7  # 1, t, …, t⁷
EVEN_TERMS = 5  # 1, |t|, t², …, t¹⁰
INDEPENDENT = 1e-13  # a term that the others explain to this is left out


@dataclass(frozen=True, eq=False)
class Family:
    """Fits of all windows k (steps k and smaller) and all orders p.

    ``slope[k, p]`` maps data to the coefficient asked for; the fit of order p explains
    the first ``terms[p]`` columns of the orthonormal ``basis[k]`` of the data times
    ``weights``; ``freedom[k, p]`` data are left over (0: no fit).
    """

    slope: Array
    basis: Array
    weights: Array
    terms: tuple[int, ...]
    freedom: Array


def _family(
    nodes: Array, first: int, exponents: list[int], terms: range, weights: Array,
    column: int,
) -> Family:  # fmt: skip
    """Fits with the first ``terms[p]`` of the ``exponents``, in extended precision.

    ``nodes`` are steps, largest first, of which the first ``first`` begin a window;
    what follows them belongs to every window.
    """
    n, orders = len(nodes), len(terms)
    slope = np.full((first, orders, n), np.nan)
    kept = np.zeros((first, n, terms[-1]))
    freedom = np.zeros((first, orders))
    for k in range(first):
        y = (nodes[k:] / nodes[k]).astype(np.longdouble)
        w = weights[k:].astype(np.longdouble)
        most = min(terms[-1], n - k - 1)
        rows = y[:, None] ** np.array(exponents[:most]) * w[:, None]
        q, r = _orthogonal(rows)
        for p, count in enumerate(terms):
            if count > most or r[count - 1, count - 1] < INDEPENDENT:
                break
            basis, lower = q[:, :count], r[:count, :count].T
            wanted = np.eye(count, dtype=y.dtype)[column]
            f = basis @ _forward(lower, wanted)
            f += basis @ _forward(lower, wanted - f @ rows[:, :count])
            slope[k, p] = 0.0
            slope[k, p, k:] = f * w / nodes[k]
            kept[k, k:, :count] = basis
            freedom[k, p] = n - k - count
    return Family(slope, kept, weights, tuple(terms), freedom)


def _orthogonal(columns: Array) -> tuple[Array, Array]:
    """Thin QR by Gram–Schmidt, done twice; keeps the precision of its argument."""
    q = columns.copy()
    r = np.zeros((columns.shape[1],) * 2, dtype=columns.dtype)
    for j in range(columns.shape[1]):
        for _ in range(2):
            part = q[:, :j].T @ q[:, j]
            q[:, j] -= q[:, :j] @ part
            r[:j, j] += part
        r[j, j] = np.sqrt(q[:, j] @ q[:, j])
        q[:, j] /= r[j, j] or 1.0
    return q, r


def _forward(lower: Array, right: Array) -> Array:
    """Solve a lower triangular system, in the precision of its arguments."""
    x = np.zeros_like(right)
    for i in range(len(right)):
        x[i] = (right[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


@lru_cache(maxsize=64)
def odd(ratios: tuple[float, ...]) -> Family:
    """Slope at 0 from (φ(h)−φ(−h))/2; the terms are t, t³, …, t^(2p+1)."""
    x = np.array(ratios)
    powers = list(range(1, 2 * ODD_TERMS, 2))
    return _family(x, len(x), powers, range(1, ODD_TERMS + 1), np.ones(len(x)), 0)


@lru_cache(maxsize=64)
def kink(ratios: tuple[float, ...]) -> Family:
    """Half the slope jump at 0 from (φ(h)+φ(−h))/2, and φ(0) as the last datum.

    The terms are 1, |t|, t², t⁴, …, t^(2p+2).
    """
    x = np.array([*ratios, 0.0])
    powers = [0, 1, *range(2, 2 * EVEN_TERMS + 1, 2)]
    weights = np.append(np.ones(len(ratios)), np.sqrt(0.5))
    return _family(x, len(ratios), powers, range(3, EVEN_TERMS + 3), weights, 1)


@lru_cache(maxsize=64)
def side(ratios: tuple[float, ...]) -> Family:
    """Slope at 0 from φ(h) on one side, and φ(0) as the last datum; terms 1 … t^(q+1)."""
    x = np.array([*ratios, 0.0])
    powers = list(range(SIDE_TERMS + 1))
    ones = np.ones(len(x))
    return _family(x, len(ratios), powers, range(2, SIDE_TERMS + 2), ones, 1)
