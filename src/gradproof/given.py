"""What a caller gives, made real, or refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradproof import adapters, diagnosis
from gradproof.errors import UsageError
from gradproof.oracles import misfit
from gradproof.rule import Primal
from gradproof.samples import Described, Drawn, draw


def fitting(primal: Primal) -> None:
    """Refuse a point that lies outside the set that was declared."""
    for leaf in primal.domain:
        why = misfit(leaf, primal.point[leaf.slice])
        if why:
            told = leaf.pattern or f"within {leaf.low:.6g}..{leaf.high:.6g}"
            raise UsageError(
                f"{leaf.path} was declared {told}, but {why}; pass values that lie "
                "in the set, or leave the declaration out"
            )


def seed_of(seed: Any) -> int:
    """A seed: a whole number from 0 on."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(
            f"seed={seed!r} was given, and an integer of 0 or more expected"
        )
    return int(seed)


def share_of(number: Any, what: str) -> float:
    """The number of the keyword ``what``: finite, 0 or more."""
    if isinstance(number, bool) or not isinstance(number, (int, float, np.floating)):
        raise UsageError(f"{what}={number!r} was given, and a number was expected")
    if not number >= 0 or not np.isfinite(number):
        raise UsageError(f"{what}={number!r} was given, and 0 or more was expected")
    return float(number)


def orders_of(orders: Any) -> int:
    """1 or 2."""
    if orders not in (1, 2) or isinstance(orders, bool):
        raise UsageError(f"orders={orders!r} was given, and 1 or 2 was expected")
    return int(orders)


def backend_of(backend: Any, *, pair: bool) -> str:
    """The backend that is asked; "" for none."""
    if not isinstance(backend, (bool, str)):
        raise UsageError(
            f"compile={backend!r} was given, and True, False or the name of a backend "
            "was expected"
        )
    if backend and pair:
        raise UsageError(
            f"compile={backend!r} was given, and no compiler ever sees a raw pair of a "
            "forward and a backward; leave it out, or check the function that is compiled"
        )
    if not backend:
        return ""
    return adapters.backend_of(backend if isinstance(backend, str) else "")


def allowed_of(allow: str | Iterable[str]) -> tuple[str, ...]:
    """Slugs that there are."""
    words = (allow,) if isinstance(allow, str) else tuple(allow)
    known = diagnosis.slugs()
    for word in words:
        if word not in known:
            raise UsageError(
                f"allow={word!r} was given, which is no finding that gradproof knows; "
                f"did you mean {diagnosis.nearest(word)!r}?"
            )
    return words


def made_real(
    fn: Any,
    inputs: Any,
    kwargs: Mapping[str, Any] | None,
    sizes: Mapping[str, int] | None,
    seed: int,
    *,
    arrays: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Inputs as the framework's tensors: described ones are drawn and made real."""
    extra = dict(kwargs or {})
    one = isinstance(inputs, Described)
    if one or (
        isinstance(inputs, (tuple, list))
        and any(isinstance(item, Described) for item in inputs)
    ):
        drawn = draw((inputs,) if one else tuple(inputs), dict(sizes or {}), seed)
        actual, named = realise(drawn, fn, arrays=arrays)
        return actual, {**extra, **named}
    if isinstance(inputs, dict) and any(
        isinstance(item, Described) for item in inputs.values()
    ):
        keep = {k: v for k, v in inputs.items() if not isinstance(v, Described)}
        todo = [v.named(k) for k, v in inputs.items() if isinstance(v, Described)]
        actual, named = realise(draw(todo, dict(sizes or {}), seed), fn, arrays=arrays)
        named.update(zip([d.name for d in todo], actual, strict=False))
        return (), {**extra, **keep, **named}
    return inputs, extra


def realise(
    drawn: Sequence[Drawn], thing: Any = None, *, arrays: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Drawn samples as the tensors or arrays that ``thing`` takes, and its keywords."""
    return adapters.realise(drawn, thing, arrays=arrays)
