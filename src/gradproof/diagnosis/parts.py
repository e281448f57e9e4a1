"""Wrong on a named part of an input or output, right elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.diagnosis.algebra import Ratio, ratio
from gradproof.diagnosis.card import Bools
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.slices import Named, Sets, call, named, named_within
from gradproof.space import Leaf, Mask, Matrix


@dataclass(frozen=True, eq=False)
class Part:
    """Columns of one input leaf that are off by one constant."""

    where: str
    columns: Mask  # over the coordinates of the domain
    ratio: Ratio

    def repaired(self, look: Look, factor: float) -> tuple[Matrix, ...]:
        """x̄ with the part multiplied by ``factor``."""
        return tuple(
            p.got * np.where(self.columns[p.cols], factor, 1.0)[None, :]
            for p in look.panels
        )


def wrong_columns(look: Look) -> Mask:
    """Coordinates of the domain where some entry of the gradient is wrong.

    Those too that were not measured alone but lie where masked directions found it wrong
    throughout.
    """
    out = np.zeros(look.evidence.domain.size, bool)
    for p in look.panels:
        out[p.cols[p.bad.any(axis=0)]] = True
    for place in look.evidence.located:
        leaf = next((a for a in look.leaves if a.path == place.path), None)
        if leaf is not None and place.solid and out[leaf.slice].any():
            out[leaf.slice] |= place.mask
    return out


def known_columns(look: Look) -> Mask:
    """Coordinates of the domain where some entry was measured, alone or with others."""
    out = np.zeros(look.evidence.domain.size, bool)
    for p in look.panels:
        out[p.cols[p.ok.any(axis=0)]] = True
    for place in look.evidence.located:
        for leaf in look.leaves:
            if leaf.path == place.path:
                out[leaf.slice] = True
    return out


def silent_columns(look: Look) -> Mask:
    """Coordinates where nothing is due and nothing was given."""
    out = np.ones(look.evidence.domain.size, bool)
    for p in look.panels:
        nothing = (np.abs(p.want) <= p.slack) & (np.abs(p.got) <= p.slack)
        out[p.cols[~nothing.all(axis=0)]] = False
    return out


def elements(leaf: Leaf, coordinates: Mask) -> Sets:
    """A mask over coordinates as one over the elements of a leaf, in its shape."""
    mine = coordinates[leaf.slice].reshape(leaf.view_shape)
    return np.asarray(mine.any(axis=-1)) if leaf.is_complex else mine


def name_part(leaf: Leaf, coordinates: Mask, free: Mask | None = None) -> Named | None:
    """The name of the elements of a leaf that are in the mask.

    Elements that are ``free`` may be counted in or out (nothing is due there and
    nothing was given, so that they show nothing).
    """
    mask = elements(leaf, coordinates)
    if free is None:
        return named(mask)
    return named_within(mask, mask | elements(leaf, free))


def constant_part(look: Look) -> Part | None:
    """The wrong columns, if they have one name and one ratio, and the rest is right."""
    if len(look.wrong_leaves) != 1:
        return None
    leaf = look.wrong_leaves[0]
    wrong = wrong_columns(look)
    found = name_part(leaf, wrong)
    if found is None or found.kind == "all" or not _some_right(look, leaf, wrong):
        return None
    masks: list[Bools] = [
        np.broadcast_to(wrong[p.cols], p.got.shape) for p in look.panels
    ]
    constant = ratio(look.panels, masks)
    if constant is None:
        return None
    return Part(call(leaf.path, found), wrong, constant)


def turns(look: Look) -> list[tuple[str, Ratio]]:
    """Even and odd indices along an axis, each off by one constant of its own."""
    if len(look.wrong_leaves) != 1 or look.wrong_leaves[0].is_complex:
        return []
    leaf = look.wrong_leaves[0]
    at = np.indices(leaf.shape).reshape(len(leaf.shape), leaf.size)
    for axis, n in enumerate(leaf.shape):
        found = []
        for odd in (0, 1) if n >= 4 else ():
            mine = np.zeros(look.evidence.domain.size, bool)
            mine[leaf.slice] = at[axis] % 2 == odd
            masks: list[Bools] = [
                np.broadcast_to(mine[p.cols], p.got.shape) for p in look.panels
            ]
            r = ratio(look.panels, masks)
            if r is None or r.count < 4:
                break
            found.append((f"{'odd' if odd else 'even'} indices along axis {axis}", r))
        if len(found) == 2 and not found[0][1].holds(found[1][1].mid):
            return found
    return []


def _some_right(look: Look, leaf: Leaf, wrong: Mask) -> bool:
    return bool((known_columns(look) & ~wrong)[leaf.slice].any())


def extents(look: Look) -> list[tuple[str, int]]:
    """Sizes that a factor may be: of axes, of leaves, of the batch."""
    out: dict[int, str] = {}
    e = look.evidence
    for leaf in (*e.domain, *e.codomain):
        for axis, n in enumerate(leaf.shape):
            out.setdefault(n, f"{leaf.path}.shape[{axis}]")
    for leaf in (*e.domain, *e.codomain):
        count = leaf.size // (2 if leaf.is_complex else 1)
        out.setdefault(count, f"{leaf.path}.numel()")
        for axis, n in enumerate(leaf.shape):
            if n:
                out.setdefault(
                    count // n, f"{leaf.path}.numel() / {leaf.path}.shape[{axis}]"
                )
    for n in e.extents:
        out.setdefault(n, "an extent")
    return [(name, n) for n, name in out.items()]


def cotangents_of(panel: Panel, size: int) -> Matrix:
    """The cotangents of a panel's rows as a matrix (rows, m)."""
    if panel.rows is not None:
        return np.asarray(np.eye(size)[panel.rows])
    assert panel.cotangents is not None
    return panel.cotangents


def times_cotangent(look: Look) -> tuple[Matrix, ...]:
    """x̄ ⊙ ȳ for an output of the input's own size, x̄ · ȳ for a scalar output."""
    m, n = look.evidence.codomain.size, look.evidence.domain.size
    out = []
    for panel in look.panels:
        cotangents = cotangents_of(panel, m)
        if m == n:
            out.append(panel.got * cotangents[:, panel.cols])
        else:
            out.append(panel.got * cotangents if m == 1 else panel.got)
    return tuple(out)
