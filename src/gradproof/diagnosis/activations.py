"""A known function in the forward, the slope of its neighbour in the backward."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.neighbours import NEIGHBOURS


def activation(look: Look) -> tuple[str, str] | None:
    """(function of the forward, function of the backward) of a known pair."""
    if len(look.wrong_leaves) != 1 or len(look.evidence.codomain) != 1:
        return None
    leaf, out = look.wrong_leaves[0], look.evidence.codomain.leaves[0]
    p = look.block
    if p is None or p.rows is None or leaf.size != out.size or leaf.is_complex:
        return None
    on = (p.rows - out.start)[:, None] == (p.cols - leaf.start)[None, :]
    if not on.any() or np.any(np.abs(p.got[~on]) > AMPLIFY * p.own[~on]):
        return None
    x = look.value_of(leaf)[p.cols[np.nonzero(on)[1]] - leaf.start]
    for group in NEIGHBOURS:
        with np.errstate(all="ignore"):
            slopes = {name: slope(x) for name, slope in group.items()}
        right = [n for n, s in slopes.items() if _near(p, on, p.want, s)]
        mine = [n for n, s in slopes.items() if _near(p, on, p.got, s)]
        if len(right) == 1 and len(mine) == 1 and right != mine:
            return right[0], mine[0]
    return None


def _near(p: Panel, on: np.ndarray, numbers: np.ndarray, slope: np.ndarray) -> bool:
    room = (p.bound + AMPLIFY * p.own)[on] + 1e-12
    return bool(np.all(np.abs(numbers[on] - slope)[p.ok[on]] <= room[p.ok[on]]))
