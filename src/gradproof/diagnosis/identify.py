"""What a backward does compute: a product of simple functions of what it can see.

Every candidate is compared in all entries, within the error of each; a formula is named
only when enough entries bear it out that chance cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gradproof.space import Matrix, Vector

# Entries that must bear a formula out, and the decimal digits that they must carry in
# all: with fewer, some one of the ten thousand formulas fits anything.
ENOUGH = 4
DIGITS = 12.0
# Entries on which formulas are tried; what fits there is then compared in all.
KEPT = 24
# The loosest relative error of an entry that still counts.
SHARP = 0.02
# Functions of one variable that are tried, the plainest first.
MOST = 1500
_CONSTANTS = ((1.0, ""), (2.0, "2 · "), (0.5, "1/2 · "), (-1.0, "-"), (3.0, "3 · "),
              (-2.0, "-2 · "), (4.0, "4 · "), (0.25, "1/4 · "), (-0.5, "-1/2 · "))  # fmt: skip


def _sigmoid(v: Vector) -> Vector:
    return np.asarray(1.0 / (1.0 + np.exp(-v)))


_ATOMS: tuple[tuple[str, Callable[[Vector], Vector], int], ...] = (
    ("{v}", lambda v: v, 1),
    ("1/{v}", lambda v: 1.0 / v, 2),
    ("{v}²", lambda v: v * v, 2),
    ("(1 - {v})", lambda v: 1.0 - v, 2),
    ("(1 + {v})", lambda v: 1.0 + v, 2),
    ("(1 - {v}²)", lambda v: 1.0 - v * v, 3),
    ("(1 + {v}²)", lambda v: 1.0 + v * v, 3),
    ("exp({v})", np.exp, 3),
    ("exp(-{v})", lambda v: np.exp(-v), 3),
    ("sign({v})", np.sign, 3),
    ("|{v}|", np.abs, 3),
    ("sqrt({v})", np.sqrt, 3),
    ("1/sqrt({v})", lambda v: 1.0 / np.sqrt(v), 4),
    ("{v}³", lambda v: v**3, 3),
    ("1/{v}²", lambda v: 1.0 / (v * v), 3),
    ("sin({v})", np.sin, 3),
    ("cos({v})", np.cos, 3),
    ("1/cos({v})", lambda v: 1.0 / np.cos(v), 4),
    ("1/sin({v})", lambda v: 1.0 / np.sin(v), 4),
    ("tanh({v})", np.tanh, 3),
    ("(1 - tanh²({v}))", lambda v: 1.0 - np.tanh(v) ** 2, 4),
    ("1/(1 - {v}²)", lambda v: 1.0 / (1.0 - v * v), 4),
    ("1/(1 + {v}²)", lambda v: 1.0 / (1.0 + v * v), 4),
    ("1/(1 - {v})", lambda v: 1.0 / (1.0 - v), 4),
    ("1/(1 + {v})", lambda v: 1.0 / (1.0 + v), 4),
    ("sqrt(1 - {v}²)", lambda v: np.sqrt(1.0 - v * v), 4),
    ("1/sqrt(1 - {v}²)", lambda v: 1.0 / np.sqrt(1.0 - v * v), 5),
    ("1/sqrt(1 + {v}²)", lambda v: 1.0 / np.sqrt(1.0 + v * v), 5),
    ("{v}·(1 - {v})", lambda v: v * (1.0 - v), 3),
    ("sigmoid({v})", _sigmoid, 3),
    ("(1 - sigmoid({v}))", lambda v: _sigmoid(-v), 4),
    ("sigmoid({v})·(1 - sigmoid({v}))", lambda v: _sigmoid(v) * _sigmoid(-v), 5),
    ("log({v})", np.log, 3),
    ("({v} > 0)", lambda v: (v > 0).astype(float), 3),
)


@dataclass(frozen=True, eq=False)
class Formula:
    """An expression that equals the numbers in every entry."""

    text: str
    values: Vector
    cost: int
    constant: str = ""  # "", "-", "2 · ": what stands before the factors
    parts: tuple[tuple[str, str], ...] = ()  # (variable, factor) of each factor


@dataclass(frozen=True, eq=False)
class _Terms:
    """Simple functions of one variable, the plainest first, in the entries kept."""

    parts: tuple[tuple[str, int], ...]  # (variable, which function)
    values: Matrix  # (function, entry)
    cost: Vector

    @classmethod
    def of(cls, variables: dict[str, Vector]) -> _Terms:
        """Those that are finite, not 0 and no constant: only they explain a ratio."""
        names = list(variables)
        stacked = np.array([variables[a] for a in names], float)
        with np.errstate(all="ignore"):
            values = np.stack([np.asarray(f(stacked), float) for _, f, _ in _ATOMS], 1)
        live = np.isfinite(values).all(axis=2) & (values != 0).all(axis=2)
        live &= (values != values[:, :, :1]).any(axis=2)
        cost = np.array([c for _, _, c in _ATOMS])
        v, a = np.nonzero(live)
        order = np.argsort(cost[a], kind="stable")[:MOST]
        v, a = v[order], a[order]
        parts = tuple((names[i], int(k)) for i, k in zip(v, a, strict=True))
        return cls(parts, values[v, a], cost[a])


def _tidy(text: str, name: str) -> str:
    plain = name.isidentifier() or name.replace("[", "").replace("]", "").isalnum()
    shown = name if plain or text == "{v}" else f"({name})"
    return text.format(v=shown)


def fit(
    target: Vector, error: Vector, variables: dict[str, Vector], *, pairs: bool = True
) -> Formula | None:
    """The plainest formula that equals ``target`` in every entry, or None.

    Formulas are constants times one or two simple functions of the variables. None too
    where the entries carry too few digits to tell so many formulas apart.
    """
    keep = _sharpest(target, error)
    if keep is None or not variables:
        return None
    terms = _Terms.of({name: v[keep] for name, v in variables.items()})
    aim, room = target[keep], error[keep]
    found = _alone(terms, aim, room) or (_pair(terms, aim, room) if pairs else None)
    if found is None:
        return None
    chosen, constant, word = found
    values, parts, cost = np.full(len(target), constant), [], 0
    with np.errstate(all="ignore"):
        for name, which in (terms.parts[k] for k in chosen):
            text, function, price = _ATOMS[which]
            values = values * np.asarray(function(variables[name]), float)
            parts.append((name, _tidy(text, name)))
            cost += price
        if not np.all(np.abs(target - values) <= error):
            return None
    shown = f"{word}{' · '.join(text for _, text in parts)}"
    return Formula(shown, values, cost, word, tuple(parts))


def _sharpest(target: Vector, error: Vector) -> np.ndarray | None:
    """Entries to try formulas on; None where they carry too little."""
    size = np.abs(target)
    with np.errstate(divide="ignore", invalid="ignore"):
        loose = np.where(size > 0, error / size, np.inf)
    sharp = np.flatnonzero(loose < SHARP)
    if len(sharp) < ENOUGH or not np.isfinite(target).all():
        return None
    kept = sharp[np.argsort(loose[sharp], kind="stable")[:KEPT]]
    digits = float(np.sum(-np.log10(2.0 * np.maximum(loose[kept], 1e-12))))
    values = target[kept]
    spread = np.ptp(values) / np.abs(values).max()
    if digits < DIGITS or spread <= 4 * float(loose[kept].max()):
        return None
    return np.asarray(kept)


_Found: TypeAlias = tuple[tuple[int, ...], float, str]  # which terms, the constant


def _alone(terms: _Terms, aim: Vector, room: Vector) -> _Found | None:
    """The plainest single term that fits, with its constant."""
    for k in np.flatnonzero(_proportional(terms.values, aim, room)):
        found = _constant(terms.values[k], aim, room)
        if found is not None:
            return (int(k),), *found
    return None


def _pair(terms: _Terms, aim: Vector, room: Vector) -> _Found | None:
    """The plainest product of two terms that fits.

    Products are sums of logarithms: sorted by one entry, the few that fit there are
    found by bisection, and only they are compared in the others.
    """
    if not len(terms.values):
        return None
    sharp = np.argsort(room / np.abs(aim), kind="stable")
    pivot, at = int(sharp[0]), int(sharp[1])
    logs = np.log(np.abs(terms.values))
    logs -= logs[:, pivot : pivot + 1]
    due = np.log(np.abs(aim))
    due = due - due[pivot]
    slack = 4.5 * room / np.abs(aim) + 1e-12
    order = np.argsort(logs[:, at], kind="stable")
    ranked = logs[order, at]
    low = np.searchsorted(ranked, due[at] - logs[:, at] - slack[at], "left")
    high = np.searchsorted(ranked, due[at] - logs[:, at] + slack[at], "right")
    count = high - low
    first = np.repeat(np.arange(len(logs)), count)
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    second = order[np.repeat(low, count) + step]
    keep = second <= first
    first, second = first[keep], second[keep]
    for c in sharp[2:]:
        near = np.abs(logs[first, c] + logs[second, c] - due[c]) <= slack[c]
        first, second = first[near], second[near]
    made = terms.values[first] * terms.values[second]
    fits = np.flatnonzero(_proportional(made, aim, room))
    rank = np.lexsort(
        (second[fits], first[fits], (terms.cost[first] + terms.cost[second])[fits])
    )
    for k in fits[rank]:
        found = _constant(made[k], aim, room)
        if found is not None:
            return (int(second[k]), int(first[k])), *found
    return None


def _proportional(values: Matrix, aim: Vector, room: Vector) -> np.ndarray:
    """Rows that are a multiple of ``aim``, within its error."""
    k = int(np.argmin(room / np.abs(aim)))
    ratio = aim[k] / values[:, k]
    out: np.ndarray = (np.abs(ratio[:, None] * values - aim) <= 4 * room).all(axis=1)
    return out


def _constant(values: Vector, aim: Vector, room: Vector) -> tuple[float, str] | None:
    """The plain constant that makes ``values`` what is aimed at."""
    for c, word in _CONSTANTS:
        if np.all(np.abs(aim - c * values) <= room):
            return c, word
    return None
