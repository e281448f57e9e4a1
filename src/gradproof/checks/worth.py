"""What a comparison is worth: its detection limits, and the blocks left unanswered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradproof.checks.gradient import Compared
from gradproof.checks.rounding import HALF
from gradproof.space import Leaf, Matrix, Space, Vector
from gradproof.verdict import Block, Code, Direction, Limit, Probe, Undecided

# An entry below this share of its block's largest one has no relative limit of its own.
VISIBLE = 1e-3
# One that is far below the typical may be 0 but for rounding: its error is held against
# the typical one.
SLIGHT = 0.1
FEW = 0.01  # of the entries, which may lie beside kinks
BLIND = 1.0  # the relative limit of an entry from which on a sign would not be seen

UNSEEN = (
    "an error as large as the entry itself would not have been seen in {count} of {total} "
    "entries that are not 0: the derivative there is {value:.3g} ± {bound:.1g}"
)
SEE = "a wider dtype, a less noisy forward, reference=, or tolerate= with what is acceptable"

WHY = {
    Code.KINK: (
        "kink",
        "the one-sided slopes differ, so there is no derivative to compare with",
        "check at a point off the kink, or state the convention with allow=('kink',)",
    ),
    Code.JUMP: (
        "jump",
        "the function itself jumps here",
        "check at a point away from the jump",
    ),
    Code.NOISE: (
        "noise",
        "the forward's values are too noisy for any step to show the derivative",
        "tighten the forward (a smaller solver tolerance, a wider dtype) or give "
        "reference=",
    ),
    Code.DOMAIN: (
        "domain",
        "the function, or its derivative, is not finite next to this point",
        "check at a point inside the domain",
    ),
    Code.SCALE: (
        "scale",
        "every usable step is below the spacing of x in its dtype",
        "use a wider dtype, or inputs of ordinary size",
    ),
    Code.UNMEASURED: (
        "budget",
        "these entries were not measured",
        "raise budget=, or check a smaller shape",
    ),
}


def hides(values: Sequence[Vector]) -> bool:
    """Whether a wrong gradient could hide in the ``values`` of the inputs, one each.

    Numbers that are all alike, or 0 and 1 alone, or the same for two inputs, hide which
    of them is used, and how often.
    """
    for v in values:
        if v.size > 1 and (v == v[0]).all():
            return True
        if v.size and np.isin(v, (0.0, 1.0)).all():
            return True
    pairs = [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    return any(a.size and np.array_equal(a, b) for a, b in pairs)


def blocks(space_out: Space, space_in: Space) -> list[tuple[Leaf, Leaf]]:
    """Every output leaf with every input leaf."""
    return [(out, leaf) for out in space_out for leaf in space_in]


def unanswered(
    found: Compared, domain: Space, codomain: Space
) -> tuple[tuple[Undecided, ...], tuple[str, ...]]:
    """Blocks without an answer, and the entries left out of answered ones.

    A block (one output by one input) is answered when at least half of the entries that
    could be non-zero are.
    """
    if found.block is None or not found.block.whole:
        return _unanswered_probes(found, domain)
    undecided, left_out = [], []
    b = found.block
    for out, leaf in blocks(codomain, domain):
        code = b.code[out.slice, leaf.slice]
        if not code.size or not (code != Code.OK).any():
            continue
        value = b.value[out.slice, leaf.slice]
        answered = (code == Code.OK) & (value != 0)
        bad = code != Code.OK
        worst = _commonest(code[bad])
        reason, detail, decide = WHY[worst]
        count = int(bad.sum())
        pair = f"d{out.path}/d{leaf.path}"
        if answered.sum() >= bad.sum() and answered.any():
            left_out.append(f"{count} of {code.size} entries of {pair} ({reason})")
            continue
        i, j = (int(k) for k in np.argwhere(bad)[0])
        where = f"{codomain.place(out.start + i)} by {domain.place(leaf.start + j)}"
        undecided.append(Undecided(reason, where, detail, decide, count))
    return tuple(undecided), tuple(left_out)


def _unanswered_probes(
    found: Compared, domain: Space
) -> tuple[tuple[Undecided, ...], tuple[str, ...]]:
    undecided, left_out = [], []
    bad = [d for d in found.directions if d.code != Code.OK]
    if bad:
        share = [_share(d) for d in bad]
        reason, detail, decide = WHY[_commonest(np.array([d.code for d in bad]))]
        if min(share) < 0.5:
            undecided.append(
                Undecided(reason, "most outputs along a direction", detail, decide)
            )
        else:
            left_out.append(f"some outputs along directions ({reason})")
    away = max((d.left_out for d in found.directions), default=0)
    if away:
        left_out.append(f"up to {away} outputs along each direction")
    for probe in found.probes[:1]:
        code = probe.expected.code
        odd = (code != Code.OK) & (code != Code.UNMEASURED)
        if odd.any():
            reason = WHY[_commonest(code[odd])][0]
            left_out.append(f"{int(odd.sum())} of {code.size} entries ({reason})")
    return tuple(undecided), tuple(left_out)


def _share(d: Direction) -> float:
    return 1.0 if d.scale > 0 else 0.0


def _commonest(codes: np.ndarray) -> Code:
    values, counts = np.unique(codes, return_counts=True)
    return Code(int(values[int(np.argmax(counts))]))


def limits(found: Compared) -> tuple[Limit, ...]:
    """The relative error that would have been seen: of the whole, and of one entry."""
    if found.counts is not None:
        return found.limits
    if found.block is not None and found.block.whole:
        return _block_limits(found.block)
    uniform = [
        (d.bound + abs(d.got - d.expected)) / abs(d.expected)
        for d in found.directions
        if d.expected != 0
    ]
    uniform += [a for p in found.probes if (a := probe_limit(p)) is not None]
    out = [Limit("uniform", float(min(uniform)))] if uniform else []
    entry = _probe_entry(found)
    if entry is not None:
        out.append(Limit("one entry", entry))
    elif found.limits:
        out += found.limits
    elif uniform and found.directions:
        d = found.directions[0]
        live = np.abs(d.tangent[d.tangent != 0])
        share = float(np.abs(d.got)) / max(1.0, np.sqrt(live.size))
        out.append(Limit("one entry", float(d.bound / share) if share else np.inf))
    return tuple(out)


def _block_limits(b: Block) -> tuple[Limit, ...]:
    known = (b.code == Code.OK) & np.isfinite(b.value)
    size = np.abs(b.value)
    top = float(size[known].max(initial=0.0))
    if top == 0:
        return ()
    ratio = _ratios(b)
    seen = known & (size >= VISIBLE * top)
    return (
        Limit("uniform", float(ratio[seen].min())),
        Limit("one entry", float(ratio[seen].max())),
    )


def _ratios(b: Block) -> Matrix:
    """The relative error that would have been seen in each entry.

    Where that is none, of an entry far below the typical one: relative to that.
    """
    size = np.abs(b.value)
    live = size[(b.code == Code.OK) & np.isfinite(size) & (size > 0)]
    typical = float(np.median(live)) if live.size else 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(b.wrong, 0.0, np.abs(b.implied - b.value))
        room = b.bound + b.own + gap
        slight = (size < SLIGHT * typical) & ~(room < BLIND * size)
        usual = np.fmax(room / typical, float(np.nanmin(room / size)))
        return np.asarray(np.where(slight, usual, room / size))


def blind(found: Compared, domain: Space, codomain: Space) -> tuple[Undecided, ...]:
    """Undecided where a whole Jacobian has entries of which not even a sign was seen.

    Of entries that were compared one by one for one cotangent, a few may be so (beside
    kinks). In half precision hardly more than the whole is ever seen, and the limits
    say so.
    """
    b = found.block
    if max(domain.unit, codomain.unit) > HALF:
        return ()
    if b is None or not b.whole or found.directions:
        return _blind_probe(found, domain)
    size = np.abs(np.where(b.code == Code.OK, b.value, 0.0))
    live = size >= max(VISIBLE * float(size.max(initial=0.0)), np.finfo(float).tiny)
    lost = live & ~(_ratios(b) < BLIND)
    if not lost.any():
        return ()
    i, j = (int(k) for k in np.argwhere(lost)[0])
    count = int(lost.sum())
    detail = UNSEEN.format(
        count=count, total=int(live.sum()), value=b.value[i, j],
        bound=b.bound[i, j] + b.own[i, j],
    )  # fmt: skip
    where = f"{codomain.place(i)} by {domain.place(j)}"
    return (Undecided("noise", where, detail, SEE, count),)


def _blind_probe(found: Compared, domain: Space) -> tuple[Undecided, ...]:
    for p in found.probes:
        e = p.expected
        known = (e.code == Code.OK) & np.isfinite(e.value)
        size = np.abs(np.where(known, e.value, 0.0))
        live = known & (size >= max(VISIBLE * size.max(initial=0.0), 2.0**-1022))
        lost = live & ~(e.bound + p.own < BLIND * size)
        count, total = int(lost.sum()), int(live.sum())
        if count <= FEW * total:
            continue
        j = int(np.argmax(lost))
        detail = UNSEEN.format(
            count=count, total=total, value=e.value[j], bound=e.bound[j] + p.own[j]
        )
        return (Undecided("noise", f"grad of {domain.place(j)}", detail, SEE, count),)
    return ()


def probe_limit(p: Probe) -> float | None:
    """The uniform relative error that one whole vjp would have shown."""
    e = p.expected
    known = (e.code == Code.OK) & np.isfinite(e.value)
    size = np.abs(np.where(known, e.value, 0.0))
    seen = (size >= VISIBLE * size.max(initial=0.0)) & (size > 0)
    if not seen.any():
        return None
    return float(((e.bound + p.own)[seen] / size[seen]).min())


def _probe_entry(found: Compared) -> float | None:
    for p in found.probes:
        e = p.expected
        known = (e.code == Code.OK) & np.isfinite(e.value)
        if not known.all():
            continue
        size = np.abs(e.value)
        seen = size >= VISIBLE * size.max(initial=0.0)
        if not size.any():
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = (e.bound + p.own + np.abs(p.got - e.value)) / size
        return float(ratio[seen].max())
    return None


def compared(found: Compared, domain: Space, codomain: Space) -> str:
    """What was compared, in words."""
    b = found.block
    if b is not None and b.whole:
        total = b.code.size
        return f"{int((b.code == Code.OK).sum())} of {total} Jacobian entries"
    count, known = found.counts or (len(found.directions), 0)
    for p in found.probes[:1]:
        known = int((p.expected.code == Code.OK).sum())
    parts = [f"{count} direction-cotangent pairs"] if count or not known else []
    if known:
        parts.append(f"{known} of {domain.size} gradient entries one by one")
    return " and ".join(parts)
