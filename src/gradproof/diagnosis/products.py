"""Differences of more than a low rank that are one product, or lie along one array."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY, SIGNAL, rank
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.seen import variables
from gradproof.diagnosis.structure import got_support, want_support
from gradproof.space import Leaf, Matrix, Vector

# How (i, j, k, l), the indices of y[i, j] and x[k, l], fall into two pairs.
_PAIRS = ((0, 2, 1, 3), (0, 3, 1, 2))
CONSTANT = "a constant"


def one_product(p: Panel, into: Leaf, out: Leaf) -> tuple[bool, str] | None:
    """Whether the difference is A·ẋ·B (or A·ẋᵀ·B) for two matrices: one product rule.

    Such a Jacobian is a Kronecker product, of rank 1 once its indices are paired (Van
    Loan and Pitsianis 1993). With one product more than the rule has, it is missing; the
    other way round it is one too many. (extra, fact) or None.
    """
    shapes = (*out.shape, *into.shape)
    if len(into.shape) != 2 or len(out.shape) != 2 or min(shapes) < 2:
        return None
    if into.is_complex or out.is_complex or p.got.shape != (out.size, into.size):
        return None
    if _products(p.want - p.got, p.slack, shapes) != 1:
        return None
    given = _products(p.got, AMPLIFY * p.own + p.bound, shapes)
    due = _products(p.want, p.bound, shapes)
    if given == due:
        return None
    what = f"A · d{into.path} · B"
    fact = (
        f"expected - got: d{out.path}/d{into.path} is one product {what}; "
        f"expected consists of {due} such products, given of {given}"
    )
    return given > due, fact


def _products(values: Matrix, error: Matrix, shape: tuple[int, ...]) -> int:
    """The fewest products whose sum this is."""
    found = []
    for order in _PAIRS:
        rows = shape[order[0]] * shape[order[1]]
        paired, room = (
            a.reshape(shape).transpose(order).reshape(rows, -1) for a in (values, error)
        )
        found.append(rank(paired, room))
    return min(found)


def shared(look: Look, p: Panel, into: Leaf, out: Leaf) -> tuple[bool, str] | None:
    """Whether the difference is the gradient of another input: a path that both take."""
    every = Look.at(look.evidence)
    for other in look.evidence.domain:
        q = every.pair(other, out) if other.shape == into.shape else None
        if q is None or other.path == into.path or q.got.shape != p.got.shape:
            continue
        room = p.slack + q.bound
        strong = np.abs(q.want) > SIGNAL * room
        if not q.ok.all() or strong.sum() < 3:
            continue
        for sign, extra in ((1.0, False), (-1.0, True)):
            if np.all(np.abs(p.want - p.got - sign * q.want) <= room):
                what = "given minus expected" if extra else "expected minus given"
                fact = f"{what} is the gradient of {other.path} in every entry"
                return extra, fact
    return None


def along(look: Look, p: Panel, into: Leaf, out: Leaf) -> tuple[bool, str] | None:
    """Whether the difference is, row by row, a multiple of an array in sight.

    What lies along one array is plainer than what does not: if it is the given, the term
    is missing; if it is what is due, it is one too many. (extra, fact) or None.
    """
    live = got_support(p) | want_support(p)
    i, j = np.nonzero(live)
    if not len(i) or len(i) > 5000:
        return None
    seen = {**variables(look, p, into, out, i, j), CONSTANT: np.ones(len(i))}
    error = (p.bound + AMPLIFY * p.own)[i, j]
    want, got = p.want[i, j], p.got[i, j]
    term = _lies(want - got, error, i, seen)
    if not term:
        return None
    given = _lies(got, AMPLIFY * p.own[i, j] + p.bound[i, j], i, seen)
    due = _lies(want, p.bound[i, j], i, seen)
    if bool(given) == bool(due):
        return None
    plain, name = ("given", given) if given else ("expected", due)
    fact = (
        f"for each element of {out.path}, expected - got is a multiple of {term}, "
        f"and {plain} one of {name}"
    )
    return not given, fact


def _lies(
    values: Vector, error: Vector, rows: np.ndarray, seen: dict[str, Vector]
) -> str:
    """The array of which ``values`` are a multiple, with a number for each row."""
    for name, v in seen.items():
        if not np.isfinite(v).all():
            continue
        told = 0
        for row in np.unique(rows):
            mine = rows == row
            a, b, e = values[mine], v[mine], error[mine]
            weight = 1.0 / np.maximum(e, 1e-300) ** 2
            weight = weight / weight.max()
            top = float(np.sum(weight * b * b))
            c = float(np.sum(weight * a * b)) / top if top else 0.0
            if not np.all(np.abs(a - c * b) <= 2 * e):
                break
            told += max(0, int(np.sum(np.abs(a) > SIGNAL * e)) - 1)
        else:
            if told >= 3:
                return name
    return ""
