"""A card's match made a finding: the worst entry, the repair confirmed, the spans."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.diagnosis import spans
from gradproof.diagnosis.algebra import agrees
from gradproof.diagnosis.card import COTANGENT, FIRST, PURITY, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import number
from gradproof.space import Leaf, Vector
from gradproof.verdict import Code, Evidence, Finding, Help, Worst

# Layers whose findings are about the first-order gradient itself.
_NUMBERS = (PURITY, COTANGENT, FIRST)


def finding(card: Card, match: Match, look: Look) -> Finding:
    """What the reader is told. A repair that does not agree is not offered."""
    confirmed = confirm(match, look) if match.repaired is not None else ""
    help_ = None
    if match.help and (match.repaired is None or confirmed):
        old, new, line = spans.rewrite(match, look) if confirmed else ("", "", 0)
        help_ = Help(match.help, line, old, new, confirmed)
    return Finding(
        slug=card.slug,
        headline=match.headline,
        severity=match.severity or card.severity,
        evidence=match.evidence,
        spans=spans.of(card.slug, match, look),
        worst=match.worst or (worst(look) if look.layer in _NUMBERS else None),
        note=match.note,
        help=help_,
    )


def confirm(match: Match, look: Look) -> str:
    """How well the repaired numbers agree with the oracle; "" when they do not."""
    assert match.repaired is not None
    count, error = 0, 0.0
    for panel, repaired in zip(look.panels, match.repaired, strict=True):
        if not agrees(panel, repaired, amplify=match.amplify).all():
            return ""
        count += int(panel.ok.sum())
        gap = np.abs(repaired - panel.want)[panel.ok]
        error = max(error, float(gap.max(initial=0.0)))
    if not count:
        return ""
    return (
        f"{match.agreed} agrees with the oracle in {count} of {count} entries "
        f"(worst error {error:.1e})"
    )


def worst(look: Look) -> Worst | None:
    """The wrong entry that is furthest off, and how many there are beside it.

    They are counted where it stands: among those of one x̄, or of the Jacobian.
    """
    found = max(_wrong(look), key=lambda item: item[0], default=None)
    if found is None:
        return _worst_direction(look.evidence)
    return found[1]


def _wrong(look: Look) -> Iterator[tuple[int, Worst]]:
    """Candidates; an entry of a probe is told before one of the block."""
    e = look.evidence
    inside = np.zeros(e.domain.size, bool)
    for leaf in look.leaves:
        inside[leaf.slice] = True
    partial = len(look.outputs) < len(e.codomain)
    for probe in () if partial else e.probes:
        bad = probe.wrong & inside
        if bad.any():
            j = _furthest(probe.got - probe.expected.value, bad)
            yield (
                1,
                Worst(
                    place(e, j),
                    at(e, j, probe.point, probe.cotangent),
                    float(probe.got[j]),
                    float(probe.expected.value[j]),
                    float(probe.expected.bar[j]),
                    probe.expected.method,
                    wrong=int(bad.sum()),
                    total=int((inside & (probe.expected.code == Code.OK)).sum()),
                ),
            )
    if e.block is not None:
        bad = e.block.wrong & inside[e.block.cols][None, :]
        rows = np.zeros(e.codomain.size, bool)
        for leaf in look.outputs:
            rows[leaf.slice] = True
        bad = bad & rows[e.block.rows][:, None]
        if bad.any():
            gap = e.block.implied - e.block.value
            i, j = divmod(_furthest(gap.ravel(), bad.ravel()), bad.shape[1])
            col, row = int(e.block.cols[j]), int(e.block.rows[i])
            true = e.block.value[i, j]
            if not np.isfinite(true):
                true = e.block.left[i, j]
            yield (
                0,
                Worst(
                    place(e, col),
                    f"{_x(e, col, e.point)}, grad_output = 1 at "
                    f"{e.codomain.place(row)} and 0 elsewhere",
                    float(e.block.implied[i, j]),
                    float(true),
                    float(np.nan_to_num(e.block.bar[i, j])),
                    e.block.method,
                    wrong=int(bad.sum()),
                    total=int(inside[e.block.cols].sum() * rows[e.block.rows].sum()),
                ),
            )


def _furthest(gap: Vector, bad: np.ndarray) -> int:
    size = np.where(np.isfinite(gap), np.abs(gap), np.inf)
    return int(np.argmax(np.where(bad, size, -1.0)))


def place(e: Evidence, j: int) -> str:
    """The name of one entry of a gradient: "grad of x[2, 0]"."""
    return f"grad of {e.domain.place(j)}"


def _x(e: Evidence, j: int, point: Vector) -> str:
    leaf = e.domain.leaf_of(j)
    return f"{leaf.path} = {_entry(leaf, point[leaf.slice], j - leaf.start)}"


def _entry(leaf: Leaf, values: Vector, k: int) -> str:
    """The number at coordinate ``k`` of a leaf; both of its parts where it is complex."""
    if not leaf.is_complex:
        return number(float(values[k]))
    real, imag = (number(float(v)) for v in values[k - k % 2 : k - k % 2 + 2])
    return f"{real}{'' if imag.startswith('-') else '+'}{imag}i"


def at(e: Evidence, j: int, point: Vector, cotangent: Vector) -> str:
    """The input there, and the cotangent where one entry of it belongs to that input."""
    text = _x(e, j, point)
    leaf = e.domain.leaf_of(j)
    if len(e.codomain) == 1:
        out = e.codomain.leaves[0]
        if out.size == leaf.size:
            text += f", grad_output = {_entry(out, cotangent, j - leaf.start)}"
        elif out.size == 1:
            text += f", grad_output = {number(float(cotangent[0]))}"
    return text


def _worst_direction(e: Evidence) -> Worst | None:
    off = [
        d
        for d in e.directions
        if d.code == 0 and not abs(d.got - d.expected) <= d.bound
    ]
    if not off:
        return None
    d = max(off, key=lambda d: abs(d.got - d.expected) / max(d.bound, 1e-300))
    return Worst(
        "<gradient, u>", "a random direction u", d.got, d.expected, d.bar, "",
        len(off), len(e.directions),
    )  # fmt: skip
