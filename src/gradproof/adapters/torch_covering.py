"""Ways that are asked together: few runs while all agree, split where one does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from gradproof.adapters import torch_layouts as layouts
from gradproof.adapters.torch_presentation import ONCE, Place, Presentation, TorchWay
from gradproof.space import Mask, Vector
from gradproof.verdict import Severity

# A covering array has no more runs than this.
RUNS = 8

_Factors = dict[tuple[str, int], list[TorchWay]]


def covering(
    ways: Sequence[TorchWay], *, packed: bool = True
) -> tuple[tuple[TorchWay, ...], ...]:
    """The same ways in groups that can be asked together; each is in one group.

    Layouts of every ȳ and x, and the calls around the question, are independent
    factors: a group takes at most one value of each. Layouts of stride 0, which need
    constant numbers and so blunt what else is asked, are grouped by themselves. Where
    there is room each factor has one group with its plain value, each in another group,
    so that a kernel which takes its bad path only where the rest is packed is met too.
    There are at most ``RUNS`` such groups. Without ``packed`` there are only as many as a
    factor has values, for who asks of each layout with the rest packed elsewhere.

    Ways that narrow what is compared (frozen inputs, unused outputs), or that ask
    through another engine, are asked alone: merged, they would hide the rest.
    """
    dense: _Factors = {}
    expanded: _Factors = {}
    alone: list[tuple[TorchWay, ...]] = []
    for way in ways:
        key = _factor(way.presentation)
        if key is None:
            alone.append((way,))
        else:
            factors = expanded if has_stride_zero(way.presentation) else dense
            factors.setdefault(key, []).append(way)
    rows = [_rows(dense), _rows(expanded)]
    plain = [_rows(dense, plain=True), _rows(expanded, plain=True)]
    if packed and plain[0] + rows[1] <= RUNS:
        rows[0] = plain[0]
    if packed and rows[0] + plain[1] <= RUNS:
        rows[1] = plain[1]
    return (*_array(dense, rows[0]), *_array(expanded, rows[1]), *alone)


def _rows(factors: _Factors, *, plain: bool = False) -> int:
    """How many groups take all values, and the plain one of every layout."""
    extra = {name: plain and name != "calls" for name, _ in factors}
    return max(
        (len(values) + extra[name] for (name, _), values in factors.items()), default=0
    )


def _array(factors: _Factors, rows: int) -> list[tuple[TorchWay, ...]]:
    """``rows`` groups; the values of each factor begin one group after the last's."""
    groups: list[list[TorchWay]] = [[] for _ in range(rows)]
    for k, values in enumerate(factors.values()):
        for i, way in enumerate(values):
            groups[(i + k) % rows].append(way)
    return [tuple(group) for group in groups if group]


def _factor(p: Presentation) -> tuple[str, int] | None:
    """Which independent factor a presentation varies; None when it is asked alone."""
    if p == Presentation(calls=p.calls):
        return ("calls", 0)
    if p == Presentation(cotangent=p.cotangent):
        return _one_leaf("cotangent", p.cotangent)
    if p == Presentation(inputs=p.inputs):
        return _one_leaf("inputs", p.inputs)
    return None


def _one_leaf(name: str, spec: str) -> tuple[str, int] | None:
    odd = [i for i, word in enumerate(spec.split(",")) if word != layouts.CONTIGUOUS]
    return (name, odd[0]) if len(odd) == 1 else None


def has_stride_zero(p: Presentation) -> bool:
    """Whether some layout of ``p`` needs constant numbers."""
    words = (*p.cotangent.split(","), *p.inputs.split(","))
    return any(w == layouts.SCALAR or w.startswith(layouts.EXPANDED) for w in words)


def merged(group: Sequence[TorchWay]) -> TorchWay:
    """The ways of a group, asked as one; its ``parts`` are what to split it into."""
    if len(group) == 1:
        return group[0]
    covers: Mask | None = None
    for way in group:
        if way.covers is not None:
            covers = way.covers if covers is None else covers & way.covers
    lead = next((w for w in group if w.factor.endswith("layout")), group[0])
    return TorchWay(
        name=", ".join(way.name for way in group),
        factor=" and ".join(dict.fromkeys(way.factor for way in group)),
        slug=lead.slug,
        raised=lead.raised,
        raised_severity=_mildest(way.raised_severity for way in group),
        severity=_mildest(way.severity for way in group),
        place=partial(_placed, tuple(way.place for way in group)),
        fold=partial(_folded, tuple(way.fold for way in group)),
        covers=covers,
        unit=max(way.unit for way in group),
        parts=tuple(group),
        presentation=combined([way.presentation for way in group]),
    )


def asked_together(ways: Sequence[TorchWay]) -> tuple[TorchWay, ...]:
    """``ways`` merged as ``covering`` groups them."""
    return tuple(merged(group) for group in covering(ways))


def _mildest(severities: Iterable[Severity]) -> Severity:
    order = (Severity.NOTE, Severity.WARNING, Severity.ERROR)
    return min(severities, key=order.index)


def _placed(
    places: tuple[Place, ...], x: Vector, ybar: Vector
) -> tuple[Vector, Vector]:
    for place in places:
        x, ybar = place(x, ybar)
    return x, ybar


def _folded(folds: tuple[Callable[[Vector], Vector], ...], v: Vector) -> Vector:
    for fold in folds:
        v = fold(v)
    return v


def combined(presentations: Sequence[Presentation]) -> Presentation:
    """One presentation with what each of ``presentations`` varies."""
    calls = [p.calls for p in presentations if p.calls != ONCE]
    return Presentation(
        cotangent=_overlaid([p.cotangent for p in presentations]),
        inputs=_overlaid([p.inputs for p in presentations]),
        calls=calls[0] if calls else ONCE,
    )


def _overlaid(specs: Sequence[str]) -> str:
    """Layouts per leaf, each from the specification that varies it."""
    count = max(len(spec.split(",")) for spec in specs)
    out = [layouts.CONTIGUOUS] * count
    for spec in specs:
        for i, layout in enumerate(layouts.layouts_of(spec, count)):
            if layout != layouts.CONTIGUOUS:
                out[i] = layout
    return ",".join(out)
