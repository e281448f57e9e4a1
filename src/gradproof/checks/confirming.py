"""Columns that disagree at first sight are measured thoroughly before they are accused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.oracles import Differences
from gradproof.space import Mask, Matrix, Vector
from gradproof.verdict import Block, Code

# Above this many suspicious columns a sample is confirmed and stands for the rest.
CONFIRMED_COLUMNS = 48
# So many that disagree stand for all that do, where each of them does so thoroughly too
# and its quick estimates were borne out.
STANDING = 4


def confirmed(
    oracle: Differences, block: Block, most: int = CONFIRMED_COLUMNS
) -> tuple[Block, int]:
    """``block`` with its suspicious columns measured again, thoroughly.

    Of many that disagree, a few at first, which may stand for the rest. Then the ``most``
    worst; where one of these is wrong it stands for the rest. Where none is, and there is
    time (``most`` is not below ``CONFIRMED_COLUMNS``), the next are measured; where there
    is none, the rest have no answer. Also returned: how many there was no time for.
    """
    bad, lost = block.wrong, block.code != Code.OK
    suspicious = (bad | lost).any(axis=0)
    loose = _loose(block).any(axis=0) & ~suspicious
    gap = _gaps(block).max(axis=0, initial=0.0)
    some = _sample(np.asarray(bad.any(axis=0)), gap)
    if 0 < len(some) <= most:
        before, block = block, _again(oracle, block, some)
        if _borne_out(before, block, some):
            suspicious &= ~bad.any(axis=0)
            loose[...] = False
        suspicious[some] = False
    first = np.flatnonzero(suspicious)
    if len(first) + loose.sum() > most:
        first = first[np.argsort(-gap[first], kind="stable")]
    order = np.concatenate([first, np.flatnonzero(loose)])
    done = 0
    while done < len(order):
        some = order[done : done + most]
        block = _again(oracle, block, some)
        done += len(some)
        rest = order[done:]
        if block.wrong[:, order[:done]].any() or not bad[:, rest].any():
            break
        if most < CONFIRMED_COLUMNS:
            code = block.code.copy()
            code[:, rest] = np.where(bad[:, rest], Code.UNMEASURED, code[:, rest])
            block = replace(block, code=code)
            break
    return block, int(suspicious[order[done:]].sum()) if most < CONFIRMED_COLUMNS else 0


def _gaps(block: Block) -> Matrix:
    with np.errstate(invalid="ignore"):
        gap = np.abs(block.implied - block.value)
    return np.where(np.isfinite(gap), gap, np.inf)


def _sample(bad: Mask, gap: Vector) -> np.ndarray:
    """Of the columns that disagree the worst, and some spread over the others.

    None where they are hardly more than ``STANDING``.
    """
    every = np.flatnonzero(bad)
    if len(every) <= STANDING:
        return every[:0]
    order = every[np.argsort(-gap[every], kind="stable")]
    worst, others = order[: STANDING // 2], np.sort(order[STANDING // 2 :])
    spread = np.linspace(0, len(others) - 1, STANDING - STANDING // 2).astype(int)
    return np.concatenate([worst, others[spread]])


def _borne_out(quick: Block, block: Block, cols: np.ndarray) -> bool:
    """Whether all of ``cols`` are wrong still, and their quick estimates were no lie."""
    known = ((quick.code == Code.OK) & (block.code == Code.OK))[:, cols]
    with np.errstate(invalid="ignore"):
        apart = np.abs(quick.value - block.value) > quick.bound + block.bound
    wrong = (block.wrong & quick.wrong)[:, cols].any(axis=0)
    return bool(wrong.all() and not (apart[:, cols] & known).any())


def _again(oracle: Differences, block: Block, cols: np.ndarray) -> Block:
    """``block`` with the columns at ``cols`` measured thoroughly."""
    c = oracle.columns(block.cols[cols], "thorough")
    new = {
        name: getattr(block, name).copy()
        for name in ("value", "bar", "bound", "code", "left", "right")
    }
    for name, array in new.items():
        array[:, cols] = getattr(c, name)[block.rows]
    return replace(block, **new, evaluations=block.evaluations + c.evaluations)


def _loose(block: Block) -> np.ndarray:
    """Entries that agree but with a bound that would hide an error of one percent."""
    size = np.abs(block.value)
    typical = float(np.median(size[size > 0])) if (size > 0).any() else 0.0
    with np.errstate(invalid="ignore"):
        loose: np.ndarray = block.bound > 1e-2 * np.maximum(size, typical)
    return loose
