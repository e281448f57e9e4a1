"""The difference between what is due and what was given, read as a term."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY, planted, rank, ratio, zero_got
from gradproof.diagnosis.contraction import contraction
from gradproof.diagnosis.identify import Formula, fit
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.parts import cotangents_of, name_part, wrong_columns
from gradproof.diagnosis.products import along, one_product, shared
from gradproof.diagnosis.seen import variables
from gradproof.diagnosis.spans import cotangent
from gradproof.diagnosis.structure import complexity, components, support
from gradproof.space import Leaf, Matrix

# Slices along an axis, times entries, up to which a whole number for each is looked for.
MOST_SLICED = 1 << 24


@dataclass(frozen=True, eq=False)
class Term:
    """What is missing (or too much): its facts, and its formula where it has one."""

    extra: bool
    facts: tuple[str, ...]
    text: str = ""
    code: str = ""  # the term as code, with {grad} for the cotangent, if it is a sum
    repaired: tuple[Matrix, ...] | None = None


def difference(look: Look) -> Term | None:
    """The difference as a term of low rank, or as a formula entry by entry."""
    if look.block is None or not look.wrong_leaves:
        return None
    facts: list[str] = []
    votes: list[bool] = []
    for into, out, p in look.pairs():
        if not p.bad.any():
            continue
        if not (p.ok.all() and np.isfinite(p.got).all()):
            return None
        found = (
            _misrouted(look, p, into, out)
            or _low_rank(p, into, out)
            or _absent(p, into, out)
            or _of(shared(look, p, into, out))
            or _of(one_product(p, into, out))
            or _of(along(look, p, into, out))
        )
        formula = _formula(look, p, into, out)
        if formula is not None:
            # Where elements are coupled, the coupling tells lacking from having too much.
            extra = formula.extra if found is None else found.extra
            found = replace(
                formula,
                extra=extra,
                text=_signed(formula.text, extra=extra),
                code=_signed(formula.code, extra=extra),
            )
        if found is None:
            return None
        if found.text and len(look.wrong_leaves) == 1 and len(look.outputs) == 1:
            return found
        facts += found.facts
        votes.append(found.extra)
    if not votes:
        return None
    return Term(sum(votes) * 2 > len(votes), tuple(dict.fromkeys(facts)))


def told(look: Look, found: Term) -> str:
    """The term as the backward would write it, or as a factor of the cotangent."""
    if found.code:
        return f"`{found.code.format(grad=cotangent(look))}`"
    return found.text and f"{cotangent(look)} · {found.text}"


def added(found: Term) -> str:
    """The expression that is returned, with the term added to it."""
    if found.code.startswith("-"):
        return f"{{old}} - {found.code[1:]}"
    if found.code:
        return f"{{old}} + {found.code}"
    return f"{{old}} + {{grad}} * {found.text}" if found.text else ""


def _of(found: tuple[bool, str] | None) -> Term | None:
    return None if found is None else Term(found[0], (found[1],))


def _misrouted(look: Look, p: Panel, into: Leaf, out: Leaf) -> Term | None:
    """The cotangent of one output goes the way of another's, and its own is missing."""
    for other in look.evidence.codomain:
        if other.path == out.path or other.shape != out.shape:
            continue
        q = Look.at(look.evidence).pair(into, other)
        if q is None or q.got.shape != p.got.shape:
            continue
        if planted(p, q.want, q.bound, q.ok).all():
            fact = (
                f"the cotangent of {out.path} goes through the derivative of "
                f"{other.path}, and its own path is missing"
            )
            return Term(extra=False, facts=(fact,))
    return None


def _absent(p: Panel, into: Leaf, out: Leaf) -> Term | None:
    """Some contributions are 0 where they are due, and all that are there are right."""
    kept = p.ok & ~p.bad & ~zero_got(p)
    if not (zero_got(p)[p.bad].all() and kept.sum() * 2 >= p.bad.sum()):
        return None
    fact = (
        f"d{out.path}/d{into.path}: {int(p.bad.sum())} entries are 0 and should not be, "
        f"the other {int(kept.sum())} are right"
    )
    return Term(extra=False, facts=(fact,))


def _low_rank(p: Panel, into: Leaf, out: Leaf) -> Term | None:
    """Group by group of what hangs together, the difference has a small rank."""
    d, error = p.want - p.got, p.slack
    live = (
        support(d, error) | support(p.want, p.bound) | support(p.got, AMPLIFY * p.own)
    )
    ranks, sizes, votes = [], [], []
    for rows, cols in components(live):
        at = np.ix_(rows, cols)
        if not p.bad[at].any():
            continue
        r, size = rank(d[at], error[at]), _size(p.want[at], p.got[at], error[at])
        if size < 2 or r > max(1, size // 2):
            return None
        ranks.append(r)
        sizes.append(size)
        votes.append(_extra(p.part(_mask(len(p.got), rows), _mask(len(p.cols), cols))))
    if not ranks:
        return None
    what = f"rank {max(ranks)} of {max(sizes)}"
    fact = f"expected - got: d{out.path}/d{into.path} differs by a term of {what}"
    return Term(sum(votes) * 2 > len(votes), (fact,))


def _mask(n: int, members: np.ndarray) -> np.ndarray:
    out = np.zeros(n, bool)
    out[members] = True
    return out


def _size(want: Matrix, got: Matrix, error: Matrix) -> int:
    return max(rank(want, error), rank(got, error))


def _extra(p: Panel) -> bool:
    """Whether the rule holds more than is due. What is simpler lacks the term."""
    given = complexity(p.got, AMPLIFY * p.own + p.bound)
    due = complexity(p.want, p.bound)
    if given.key()[:2] != due.key()[:2]:
        return given.key()[:2] > due.key()[:2]
    twice = complexity(2 * p.want - p.got, 2 * p.bound + AMPLIFY * p.own)
    if twice.key()[:2] != due.key()[:2]:
        return twice.key()[:2] < due.key()[:2]
    if given.entries != due.entries:
        return given.entries > due.entries
    return float(np.sum(p.got**2)) > float(np.sum(p.want**2)) * 1.5


def _formula(look: Look, p: Panel, into: Leaf, out: Leaf) -> Term | None:
    """The difference as a product of simple functions, entry by entry."""
    live = support(p.want, p.bound) | support(p.got, AMPLIFY * p.own)
    i, j = np.nonzero(live)
    if not len(i) or len(i) > 5000:
        return None
    seen = variables(look, p, into, out, i, j)
    d, error = (p.want - p.got)[i, j], (p.bound + AMPLIFY * p.own)[i, j]
    found = fit(d, error, seen)
    if found is None or found.cost > 8:
        return None
    given = fit(p.got[i, j], AMPLIFY * p.own[i, j] + p.bound[i, j], seen)
    extra = given is None and _simple_due(p, i, j, seen)
    if found.text.startswith("-"):
        extra = extra or given is None
    shown = found.text
    fact = f"expected - got is {found.text} in {len(i)} of {len(i)} entries"
    code = contraction(look, p, into, out, found, (i, j))
    if code:
        shown_code = code.format(grad=cotangent(look))
        fact = f"expected - got is {shown_code} in {len(i)} of {len(i)} entries"
    return Term(extra, (fact,), shown, code, _add(look, p, found, i, j))


def _signed(text: str, *, extra: bool) -> str:
    """The term itself: what is to be added, or what is to be taken away."""
    if not extra or not text:
        return text
    return text[1:].lstrip() if text.startswith("-") else f"-{text}"


def _simple_due(p: Panel, i: np.ndarray, j: np.ndarray, seen: dict) -> bool:  # type: ignore[type-arg]
    return fit(p.want[i, j], p.bound[i, j], seen) is not None


def _add(
    look: Look, p: Panel, found: Formula, i: np.ndarray, j: np.ndarray
) -> tuple[Matrix, ...] | None:
    """x̄ with the term added, for panels at the point of the block."""
    if len(look.outputs) != 1 or len(look.leaves) != 1 or not look.whole:
        return None
    term = np.zeros(p.got.shape)
    term[i, j] = found.values
    out = []
    for panel in look.panels:
        if not np.array_equal(panel.point, p.point):
            return None
        out.append(panel.got + cotangents_of(panel, len(term)) @ term)
    return tuple(out)


def multiplied(look: Look) -> str:
    """Whether slices along an axis are off by different whole numbers: counted again."""
    if len(look.wrong_leaves) != 1 or look.wrong_leaves[0].is_complex:
        return ""
    leaf = look.wrong_leaves[0]
    wrong = wrong_columns(look)
    if name_part(leaf, wrong) is None:
        return ""
    for axis, n in enumerate(leaf.shape):
        if n < 3 or n * leaf.size > MOST_SLICED:
            continue
        index = np.arange(leaf.size).reshape(leaf.shape)
        others = tuple(a for a in range(index.ndim) if a != axis)
        odd = wrong[leaf.slice].reshape(leaf.shape).any(axis=others)
        found: dict[int, int] = {}
        for k in np.argsort(~odd, kind="stable").tolist():  # what is wrong first
            mine = np.zeros(len(wrong), bool)
            mine[leaf.start + index.take(k, axis).ravel()] = True
            masks = [np.broadcast_to(mine[p.cols], p.got.shape) for p in look.panels]
            r = ratio(look.panels, masks)
            if r is None or r.high - r.low > 0.2 or not r.holds(round(r.mid)):
                break
            if round(r.mid) < 1:
                break
            found[k] = round(r.mid)
        times = [found[k] for k in sorted(found)]
        steps = {b - a for a, b in pairwise(times)}
        if len(times) == n and max(times) > 1 and steps != {0}:
            shown = ", ".join(map(str, times[:6])) + (", …" if n > 6 else "")
            return f"got / expected is {shown} along axis {axis} of {leaf.path}"
    return ""
