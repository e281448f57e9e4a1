"""The right gradients at the wrong places.

An arrangement says, for each coordinate of the domain, whose gradient stands there: its
own, that of another coordinate, or none (-1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.look import Coordinates, Look, Panel
from gradproof.diagnosis.structure import matching
from gradproof.space import Leaf, Matrix, Space

# Wrong entries that an arrangement must explain before it is believed.
_ENOUGH = 2
_TRIED = 64  # elements whose gradient is looked for elsewhere
REACH = 2  # how far a shift may go


def arrangements(leaf: Leaf, space: Space) -> Iterator[tuple[str, Coordinates]]:
    """Shifts and reversals along each axis of a leaf, in words and as arrangements."""
    at = np.arange(leaf.start, leaf.start + leaf.size).reshape(leaf.view_shape)
    steps = [s for s in range(-REACH, REACH + 1) if s]
    for axis, step in product(range(len(leaf.shape)), steps):
        if leaf.shape[axis] <= abs(step):
            continue
        rolled = np.roll(at, step, axis)
        words = f"shifted by {step:+d}"
        yield (
            f"{words} with what leaves one end entering at the other (`.roll({step}, {axis})`), along axis {axis}",
            _over(space, leaf, rolled),
        )
        edge = [slice(None)] * at.ndim
        edge[axis] = slice(None, step) if step > 0 else slice(step, None)
        dropped = rolled.copy()
        dropped[tuple(edge)] = -1
        yield f"{words} along axis {axis}", _over(space, leaf, dropped)
    for axis in range(len(leaf.shape)):
        yield f"reversed along axis {axis}", _over(space, leaf, np.flip(at, axis))


def transposition(leaf: Leaf, space: Space) -> Coordinates | None:
    """The last two axes of a square matrix exchanged."""
    if leaf.is_complex or len(leaf.shape) < 2 or leaf.shape[-1] != leaf.shape[-2]:
        return None
    at = np.arange(leaf.start, leaf.start + leaf.size).reshape(leaf.shape)
    return _over(space, leaf, np.swapaxes(at, -1, -2))


def exchange(a: Leaf, b: Leaf, space: Space) -> Coordinates:
    """Two leaves of one size in each other's place."""
    out = np.arange(space.size)
    out[a.slice], out[b.slice] = out[b.slice].copy(), out[a.slice].copy()
    return out


def _over(space: Space, leaf: Leaf, part: np.ndarray) -> Coordinates:
    out = np.arange(space.size)
    out[leaf.slice] = part.ravel()
    return out


def fits(look: Look, source: Coordinates) -> bool:
    """Whether everything that was given is what is due at its source.

    Only entries whose source was measured can be compared; enough wrong ones must be.
    """
    explained, bad = 0, 0
    for p in look.panels:
        found = _compared(p, source, look.evidence.domain.size)
        if found is None:
            return False
        explained += found
        bad += int(p.bad.sum())
    return explained >= _ENOUGH and 4 * explained >= bad


def _compared(p: Panel, source: Coordinates, size: int) -> int | None:
    """How many wrong entries the arrangement explains; None when it is refuted."""
    at = np.full(size + 1, -1)
    at[p.cols] = np.arange(len(p.cols))
    if _explained(p, np.flatnonzero(p.bad.any(axis=0))[:_TRIED], source, at) is None:
        return None  # a few refute most of them
    known = np.append(p.ok.any(axis=0), False)  # the last stands for no column
    live = (source[p.cols] < 0) | known[at[source[p.cols]]]
    return _explained(p, np.flatnonzero(live), source, at)


def _explained(
    p: Panel, some: Coordinates, source: Coordinates, at: Coordinates
) -> int | None:
    """The same of some columns only, ``at`` being where each coordinate's column is."""
    src = source[p.cols[some]]
    gone, where = src < 0, at[src]
    want = np.where(gone, 0.0, p.want[:, where])
    bound = np.where(gone, 0.0, p.bound[:, where])
    ok = (p.ok[:, where] & (where >= 0)) | gone
    room = bound + AMPLIFY * p.own[:, some]
    with np.errstate(invalid="ignore"):
        right = (np.abs(p.got[:, some] - want) <= room) | ~ok
    return int((p.bad[:, some] & ok).sum()) if right.all() else None


def undone(look: Look, source: Coordinates) -> tuple[Matrix, ...] | None:
    """x̄ with everything back in its place, where nothing was lost."""
    if np.any(source < 0):
        return None
    back = np.argsort(source)
    out = []
    for p in look.panels:
        at = np.full(look.evidence.domain.size, -1)
        at[p.cols] = np.arange(len(p.cols))
        where = at[back[p.cols]]
        if np.any(where < 0):
            return None
        out.append(p.got[:, where])
    return tuple(out)


def permuted(look: Look) -> bool:
    """Whether the columns are those due, in another order; some may be lost."""
    p = look.block
    whole = look.leaves[0].size
    if p is None or not p.ok.all() or len(p.cols) < 3 or len(p.cols) != whole:
        return False
    found = matching(p.got, p.own, p.want, p.bound)
    if found is None:
        return False
    moved = (found != np.arange(len(found))) & (found >= 0)
    return bool(moved.sum() >= 2 and moved.sum() >= (found < 0).sum())


def elsewhere(look: Look) -> int:
    """How many elements get what is due to another one, told by probes alone.

    What is due was measured in some elements only, what was given is known in all: for
    each wrong one of them some other element must hold it, the same in every probe. 0
    where one is nowhere, or stands in more places than one.
    """
    probes = [p for p in look.panels if p.rows is None]
    if len(probes) != 1 or len(look.wrong_leaves) != 1:
        return 0
    p, moved = probes[0], 0
    taken: set[int] = set()
    for j in np.flatnonzero(p.bad.any(axis=0) & p.ok.all(axis=0))[:_TRIED]:
        room = p.bound[:, j : j + 1] + AMPLIFY * p.own
        at = np.flatnonzero((np.abs(p.got - p.want[:, j : j + 1]) <= room).all(axis=0))
        if len(at) != 1 or int(at[0]) in taken:
            return 0
        taken.add(int(at[0]))
        moved += 1
    return moved


def unrolled(how: str) -> tuple[int, int] | None:
    """(step, axis) of the roll that undoes one."""
    found = re.search(r"\.roll\((-?\d+), (\d+)\)", how)
    return None if found is None else (-int(found[1]), int(found[2]))


def reordered(look: Look) -> Leaf | None:
    """The output whose rows of the Jacobian are right, but in another order."""
    for out in look.outputs:
        if look.block is None:
            return None
        p = look.block.below(out)
        if not p.bad.any():
            continue
        if out.size < 3 or len(p.got) != out.size or not p.ok.all():
            return None
        found = matching(p.got.T, p.own.T, p.want.T, p.bound.T)
        return None if found is None or (found < 0).any() else out
    return None
