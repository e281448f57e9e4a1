"""Half of a Hermitian spectrum: bins that stand for two, and those that do not."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.structure import indices
from gradproof.space import Leaf


def half_spectrum(look: Look) -> str | None:
    """How the inner bins of a complex axis are miscounted: "twice" or "by half".

    The bins may be of the output (rfft) or of the input (irfft); the first is right, and
    all between the first and the last are off by 2 or by 1/2.
    """
    words: set[str] = set()
    for into, out, p in look.pairs():
        if not p.bad.any():
            continue
        if into.is_complex == out.is_complex or p.rows is None:
            return None
        leaf, at = (out, p.rows) if out.is_complex else (into, p.cols)
        found = [
            _miscounted(p, leaf, index, of_rows=out.is_complex)
            for index in indices(leaf, at)
        ]
        named = [f for f in found if f]
        if len(named) != 1:
            return None
        words.add(named[0])
    return words.pop() if len(words) == 1 else None


def _miscounted(p: Panel, leaf: Leaf, index: np.ndarray, *, of_rows: bool) -> str:
    last = int(index.max())
    if last < 2:
        return ""
    shape = (len(index), 1) if of_rows else (1, len(index))
    inner = ((index > 0) & (index < last)).reshape(shape)
    masks = {
        name: np.broadcast_to(mask, p.got.shape)
        for name, mask in (("inner", inner), ("first", (index == 0).reshape(shape)))
    }
    inside, first = (ratio([p], [masks[k]]) for k in ("inner", "first"))
    if inside is None or first is None or not first.holds(1.0):
        return ""
    return "twice" if inside.holds(2.0) else "by half" if inside.holds(0.5) else ""
