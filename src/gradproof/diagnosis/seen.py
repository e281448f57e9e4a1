"""The numbers that stand beside each entry of a Jacobian, by the names of their arrays."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.look import Coordinates, Look, Panel
from gradproof.space import Leaf, Vector


def variables(
    look: Look, p: Panel, into: Leaf, out: Leaf, i: Coordinates, j: Coordinates
) -> dict[str, Vector]:
    """Value of each array at entries (row i, column j) of the block out × into.

    An array belongs to an entry where it broadcasts to the output's shape (its element
    at row i) or to the input's (its element at column j).
    """
    assert p.rows is not None
    rows, cols = p.rows[i] - out.start, p.cols[j] - into.start
    found: dict[str, Vector] = {}
    if into.is_complex or out.is_complex:
        return found
    for leaf in look.evidence.domain:
        if leaf.is_complex:
            continue
        value = look.value_of(leaf).reshape(leaf.shape)
        at_col = _spread(value, into.shape, cols)
        at_row = _spread(value, out.shape, rows)
        if leaf is into or leaf.path == into.path:
            found[leaf.path] = look.value_of(into)[cols]
            if at_row is not None and not np.array_equal(at_row, found[leaf.path]):
                found[f"{leaf.path} at the output's index"] = at_row
            continue
        if at_row is not None:
            found[leaf.path] = at_row
        elif at_col is not None:
            found[leaf.path] = at_col
    for leaf in look.evidence.codomain:
        if leaf.is_complex:
            continue
        value = look.output_of(leaf).reshape(leaf.shape)
        at_row = _spread(value, out.shape, rows)
        if at_row is not None:
            taken = leaf.path in found
            found[f"{leaf.path} (the output)" if taken else leaf.path] = at_row
        at_col = _spread(value, into.shape, cols) if leaf.shape == into.shape else None
        if at_col is not None and (
            at_row is None or not np.array_equal(at_col, at_row)
        ):
            found[f"{leaf.path} at the input's index"] = at_col
    plain = list(found)
    for name, scalar in look.evidence.scalars:
        if scalar not in (0.0, 1.0) and np.isfinite(scalar):
            for path in plain:
                found[f"{path}/{name}"] = found[path] / scalar
                found[f"{name}·{path}"] = scalar * found[path]
    for leaf in look.evidence.domain:
        if leaf.size == 1 and not leaf.is_complex:
            s = float(look.value_of(leaf)[0])
            for path in [a for a in plain if s and a != leaf.path]:
                found[f"{path}/{leaf.path}"] = found[path] / s
    return found


def _spread(
    value: np.ndarray, shape: tuple[int, ...], at: Coordinates
) -> Vector | None:
    try:
        return np.asarray(np.broadcast_to(value, shape).ravel()[at], float)
    except ValueError:
        return None
