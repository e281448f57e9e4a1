"""The ratio between what is due and what was given, read as a factor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY, SIGNAL, rank
from gradproof.diagnosis.identify import Formula, fit
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.seen import variables
from gradproof.diagnosis.structure import components, got_support, want_support
from gradproof.space import Leaf, Matrix, Vector


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor that is missing, or (``inverse``) one that is too much."""

    text: str
    facts: tuple[str, ...]
    inverse: bool = False
    help: str = ""
    repaired: tuple[Matrix, ...] | None = None
    amplify: float = 1.0
    cost: int = 0


def factor(look: Look) -> Factor | None:
    """One factor for all that is wrong in the scope."""
    found: list[Factor] = []
    if look.block is None:
        return None
    for into, out, p in look.pairs():
        if not p.bad.any():
            continue
        if not (p.ok.all() and np.isfinite(p.got).all()):
            return None
        one = _entrywise(look, p, into, out) or _lines(p) or _inner(look, p, into)
        if one is None:
            return None
        found.append(one)
    if not found:
        return None
    if len({f.text for f in found}) > 1 or len({f.inverse for f in found}) > 1:
        return None
    return found[0] if len(found) == 1 else Factor(
        found[0].text, found[0].facts, found[0].inverse, found[0].help
    )  # fmt: skip


@dataclass(frozen=True)
class Computed:
    """What the backward computes, and what is due, as formulas in each entry."""

    given: Formula
    due: Formula | None


def computed(look: Look) -> Computed | None:
    """The formula of what an elementwise backward gives, if it has a plain one."""
    due, given = formulas(look)
    return None if given is None else Computed(given, due)


def formulas(look: Look) -> tuple[Formula | None, Formula | None]:
    """What is due and what is given in each entry, as far as they have plain formulas."""
    pairs = [(a, b, p) for a, b, p in look.pairs() if p.bad.any()]
    if len(pairs) != 1:
        return None, None
    into, out, p = pairs[0]
    live = got_support(p) | want_support(p)
    i, j = np.nonzero(live)
    if len(i) > 5000 or not p.ok.all() or not np.isfinite(p.got).all():
        return None, None
    seen = variables(look, p, into, out, i, j)
    given = fit(p.got[i, j], AMPLIFY * p.own[i, j] + p.bound[i, j], seen)
    return fit(p.want[i, j], p.bound[i, j], seen), given


def _entrywise(look: Look, p: Panel, into: Leaf, out: Leaf) -> Factor | None:
    """Want / got, entry by entry, as a formula of what stands there."""
    i, j = np.nonzero(got_support(p) | want_support(p))
    if not len(i) or len(i) > 5000:
        return None
    got, want = p.got[i, j], p.want[i, j]
    own, bound = AMPLIFY * p.own[i, j], p.bound[i, j]
    # An entry that is not well above its error says nothing of a ratio.
    clear = (np.abs(got) > SIGNAL * own) & (np.abs(want) > SIGNAL * bound)
    with np.errstate(divide="ignore", invalid="ignore"):
        rel = np.where(clear, bound / np.abs(want) + own / np.abs(got), 1.0)
        down = np.where(clear, want / got, 0.0)
        up = np.where(clear, got / want, 0.0)
    seen = variables(look, p, into, out, i, j)
    missing = fit(down, np.where(clear, rel * np.abs(down), np.inf), seen)
    extra = fit(up, np.where(clear, rel * np.abs(up), np.inf), seen)
    if missing is not None and not _carries(missing.values, got, want, own, bound):
        missing = None
    if extra is not None and not _carries(extra.values, want, got, bound, own):
        extra = None
    if missing is None and extra is None:
        return None
    # One of them is a quotient of the other: the plainer one is meant.
    pick, inverse = missing, False
    if missing is None or (extra is not None and extra.cost < missing.cost):
        pick, inverse = extra, True
    assert pick is not None
    ratio = "got / expected" if inverse else "expected / got"
    fact = f"{ratio} = {pick.text} in {len(i)} of {len(i)} entries"
    repaired, amplify = _apply(look, p, pick, i, j, inverse=inverse)
    return Factor(pick.text, (fact,), inverse, "", repaired, amplify, pick.cost)


def _carries(f: Vector, a: Vector, b: Vector, da: Vector, db: Vector) -> bool:
    """Whether a · f = b in every entry, with the errors of both."""
    return bool(np.all(np.abs(a * f - b) <= np.abs(f) * da + db))


def _apply(
    look: Look, p: Panel, f: Formula, i: np.ndarray, j: np.ndarray, *, inverse: bool
) -> tuple[tuple[Matrix, ...] | None, float]:
    """x̄ with the factor put right, where each x̄ has one entry to take it from."""
    values = 1.0 / f.values if inverse else f.values
    if not look.whole or len(look.leaves) != 1 or len(look.outputs) != 1:
        return None, 1.0
    if any(len(np.unique(values[j == c])) > 1 for c in np.unique(j)):
        return None, 1.0
    scale: Vector = np.ones(len(p.cols))
    scale[j] = values
    if any(not np.array_equal(q.point, p.point) for q in look.panels):
        return None, 1.0
    return tuple(q.got * scale for q in look.panels), float(np.abs(values).max())


def _lines(p: Panel) -> Factor | None:
    """Each column (or row) of the block is off by a factor of its own."""
    for axis, what in ((0, "element of the gradient"), (1, "element of grad_output")):
        got, want, slack = p.got, p.want, p.bound + AMPLIFY * p.own
        if axis == 1:
            got, want, slack = got.T, want.T, slack.T
        strong = (np.abs(want) > SIGNAL * slack) & (np.abs(got) > SIGNAL * slack)
        sure = int(np.sum(np.maximum(strong.sum(axis=0) - 1, 0)))
        if sure < 3 or (strong.sum(axis=0) >= 2).sum() < 2:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(strong, (got / slack) ** 2, 0.0)
            scale = weight * want / got
            scale = np.nan_to_num(scale).sum(axis=0) / weight.sum(axis=0)
        scale = np.where(np.isfinite(scale), scale, 1.0)
        room = slack * (1.0 + np.abs(scale))
        if np.all(np.abs(scale * got - want) <= 2 * room) and _varies(scale):
            fact = f"expected / got is one number for each {what}, and varies"
            return Factor(
                "", (fact,), help="multiply by every factor of the chain rule"
            )
    return None


def _varies(scale: Vector) -> bool:
    low, high = float(scale.min()), float(scale.max())
    return high - low > 1e-3 * max(abs(low), abs(high))


def _inner(look: Look, p: Panel, into: Leaf) -> Factor | None:
    """A last linear step of the chain rule is missing: J = G·K for some matrix K.

    Told only where there are many more outputs than inputs in a group, so that no K
    would fit by chance.
    """
    tried = 0
    for rows, cols in components(got_support(p) | want_support(p)):
        at = np.ix_(rows, cols)
        if not p.bad[at].any():
            continue
        g, w = p.got[at], p.want[at]
        m, n = g.shape
        error = p.bound[at] + AMPLIFY * p.own[at]
        if n < 2 or rank(g, error) < n or m < n + 2:
            return None
        k, *_ = np.linalg.lstsq(g, w, rcond=None)
        room = error * (1 + np.abs(k).sum(axis=0)) * 4 + error.max()
        if not np.all(np.abs(g @ k - w) <= room):
            return None
        tried += 1
    if not tried:
        return None
    fact = "the Jacobian is what the backward implies, times one more matrix"
    return Factor("", (fact,), help="apply the derivative of the first step of the forward "
                  "(a normalisation, a scaling) last")  # fmt: skip


def of_cotangent(look: Look) -> str:
    """The first step of the backward is missing: J = M·G for one matrix M of the outputs.

    M serves all inputs at once, so that it is told where there are more input than
    output elements; G being the sparser, it is missing rather than another one.
    """
    every = Look.at(look.evidence)
    p = every.block
    if p is None or not every.whole or not p.ok.all() or not np.isfinite(p.got).all():
        return ""
    m, n = p.got.shape
    error = p.bound + AMPLIFY * p.own
    if not 2 <= m <= 128 or n < m + max(2, m // 4) or rank(p.got, error) < m:
        return ""
    if got_support(p).sum() >= want_support(p).sum():
        return ""
    inverse = np.linalg.pinv(p.got)
    step = p.want @ inverse
    # Every column has a say in the matrix, the least exact ones too.
    room = p.bound + (p.bound @ np.abs(inverse)) @ np.abs(p.got)
    room = room + AMPLIFY * (np.abs(step) @ p.own)
    room = room + 1e-9 * np.abs(step) @ np.abs(p.got)
    if not np.all(np.abs(step @ p.got - p.want) <= 4 * room):
        return ""
    return "the Jacobian is one matrix on the outputs times what the backward implies"
