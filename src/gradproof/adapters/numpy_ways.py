"""The ways in which a caller may ask a NumPy pair for the same gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradproof.adapters.failures import failure_of
from gradproof.adapters.numpy_arrays import Array, Shape
from gradproof.rule import Reply, Way
from gradproof.space import Space, Vector
from gradproof.verdict import Failure

if TYPE_CHECKING:
    from gradproof.adapters.numpy_pair import NumpyRule


@dataclass(frozen=True, eq=False)
class NumpyWay(Way):
    """A layout of ȳ and of the inputs, and an order of calls."""

    cotangent: str = "packed"
    inputs: str = "packed"
    calls: str = "once"


def fortran(a: Array) -> Array:
    """The same numbers in column-major memory."""
    return np.asfortranarray(a)


def sliced(a: Array) -> Array:
    """The same numbers at every other place of memory that holds NaN between."""
    room = np.full((*a.shape[:-1], 2 * a.shape[-1]), np.nan, dtype=a.dtype)
    out = room[..., ::2]
    out[...] = a
    return out


def backwards(a: Array) -> Array:
    """The same numbers in memory that runs the other way."""
    return np.ascontiguousarray(a[..., ::-1])[..., ::-1]


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "in column-major order": fortran,
    "sliced with step 2": sliced,
    "with a negative stride": backwards,
}


def _laid(a: Any, layout: str) -> Any:
    """``a`` in another layout, where it has one."""
    if layout not in LAYOUTS or not isinstance(a, np.ndarray) or a.ndim == 0:
        return a
    return LAYOUTS[layout](a)


def _differs(space: Space, layout: str) -> bool:
    """Whether some leaf has that layout apart from its packed one."""
    wide = 2 if layout == "in column-major order" else 1
    return any(sum(n > 1 for n in leaf.shape) >= wide for leaf in space)


def ways_for(rule: NumpyRule) -> tuple[Way, ...]:
    """Every way there is for the shapes of ``rule``."""
    domain, codomain = rule.forward.domain, rule.forward.codomain
    out: list[Way] = []
    for layout in LAYOUTS:
        if rule.backward.kind == "vjp" and _differs(codomain, layout):
            out.append(
                NumpyWay(
                    f"{rule.names[1]} {layout}", f"{rule.names[1]} layout",
                    "layout-assumed", cotangent=layout,
                )
            )  # fmt: skip
    for layout in LAYOUTS:
        if _differs(domain, layout):
            out.append(
                NumpyWay(
                    f"inputs {layout}", "input layout", "layout-assumed", inputs=layout
                )
            )
    calls = [
        ("twice in a row", "twice", "stale-state"),
        ("after a forward at another point", "after forward", "stale-state"),
        ("first answer kept while the second is made", "kept", "reused-buffer"),
    ]
    out += [NumpyWay(name, "calls", slug, calls=key) for name, key, slug in calls]
    return tuple(out)


def ask(rule: NumpyRule, x: Vector, ybar: Vector, way: Way) -> Reply:
    """x̄ in that way; a reply without value or failure where it does not apply."""
    if not isinstance(way, NumpyWay):
        return Reply(None)
    try:
        with rule.forward.calls:
            return Reply(_answer(rule, x, ybar, way))
    except Shape as error:
        return Reply(None, Failure("ShapeError", str(error)))
    except Exception as error:
        return Reply(None, failure_of(error))


def _answer(rule: NumpyRule, x: Vector, ybar: Vector, way: NumpyWay) -> Vector | None:
    leaves = [_laid(a, way.inputs) for a in rule.forward.leaves(x)]
    cotangents = [_laid(a, way.cotangent) for a in rule.shaped(ybar)]
    rule.forward.raw(leaves)
    if way.calls == "after forward":
        if not _runs(rule, x):
            return None
        return rule.assembled(rule.pulled(leaves, cotangents))
    first = rule.pulled(leaves, cotangents)
    if way.calls == "once":
        return rule.assembled(first)
    if way.calls == "kept":
        if not _runs(rule, x):
            return None
        rule.pulled(
            rule.forward.leaves(_other(rule, x)), rule.shaped(-2.0 * ybar - 1.0)
        )
        return rule.assembled(first)
    rule.forward.calls.rewind()
    leaves = rule.forward.leaves(x)
    rule.forward.raw(leaves)
    return rule.assembled(rule.pulled(leaves, rule.shaped(ybar)))


def _other(rule: NumpyRule, x: Vector) -> Vector:
    moved = np.where(x == 0, 0.25, 0.75 * x)
    return rule.forward.domain.snap(moved)


def _runs(rule: NumpyRule, x: Vector) -> bool:
    """Run the forward at another point; False where it does not take that."""
    try:
        rule.forward.calls.rewind()
        rule.forward.raw(rule.forward.leaves(_other(rule, x)))
    except Exception:  # the user's code may refuse the point in any way
        return False
    return True
