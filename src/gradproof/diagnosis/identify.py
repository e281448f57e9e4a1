"""What a backward does compute: a product of simple functions of what it can see.

Every candidate is compared in all entries, within the error of each; a formula is named
only when enough entries bear it out that chance cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradproof.space import Vector

# Entries that must bear a formula out, and the decimal digits that they must carry in
# all: with fewer, some one of the ten thousand formulas fits anything.
ENOUGH = 4
DIGITS = 12.0
# Entries on which formulas are tried; what fits there is then compared in all.
KEPT = 24
# The loosest relative error of an entry that still counts.
SHARP = 0.02
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


def terms(variables: dict[str, Vector]) -> list[Formula]:
    """Simple functions of one variable, finite in every entry, the plainest first."""
    out: list[Formula] = []
    with np.errstate(all="ignore"):
        for name, v in variables.items():
            for text, function, cost in _ATOMS:
                values = np.asarray(function(v), float)
                if np.isfinite(values).all() and np.any(values != values[0]):
                    out.append(Formula(_tidy(text, name), values, cost))
    return sorted(out, key=lambda f: f.cost)


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
    if keep is None:
        return None
    few = {name: v[keep] for name, v in variables.items()}
    aim, room = target[keep], error[keep]
    names = _candidates(terms(few), aim, room, pairs=pairs)
    if names is None:
        return None
    everywhere = {f.text: f for f in _named(variables)}
    text, constant, word, parts, cost = names
    values = constant * np.prod([everywhere[a].values for a in parts], axis=0)
    with np.errstate(invalid="ignore"):
        if not np.all(np.abs(target - values) <= error):
            return None
    return Formula(f"{word}{text}", values, cost)


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


def _named(variables: dict[str, Vector]) -> list[Formula]:
    out: list[Formula] = []
    with np.errstate(all="ignore"):
        for name, v in variables.items():
            for text, function, cost in _ATOMS:
                values = np.asarray(function(v), float)
                out.append(Formula(_tidy(text, name), values, cost))
    return out


def _candidates(
    single: list[Formula], aim: Vector, room: Vector, *, pairs: bool
) -> tuple[str, float, str, tuple[str, ...], int] | None:
    """The first (text, constant, its word, atoms, cost) that fits, plainest first."""
    for f in single:
        found = _constant(f.values, aim, room)
        if found is not None:
            return f.text, found[0], found[1], (f.text,), f.cost
    if not pairs:
        return None
    best = None
    for i, a in enumerate(single):
        rest = single[: i + 1]
        grid = np.stack([b.values for b in rest]) * a.values
        k = int(np.argmax(np.abs(aim) / room))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = aim[k] / grid[:, k]
            fits = (np.abs(ratio[:, None] * grid - aim) <= 4 * room).all(axis=1)
        for j in np.flatnonzero(fits):
            cost = a.cost + rest[j].cost
            found = _constant(grid[j], aim, room)
            if found is not None and (best is None or cost < best[4]):
                text = f"{rest[j].text} · {a.text}"
                best = text, found[0], found[1], (rest[j].text, a.text), cost
    return best


def _constant(values: Vector, aim: Vector, room: Vector) -> tuple[float, str] | None:
    k = int(np.argmax(np.abs(values)))
    if values[k] == 0:
        return None
    for c, word in _CONSTANTS:
        if np.abs(aim[k] - c * values[k]) <= room[k] and np.all(
            np.abs(aim - c * values) <= room
        ):
            return c, word
    return None
