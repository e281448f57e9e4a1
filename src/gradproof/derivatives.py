"""The derivative itself, measured, with an error for each entry; no rule is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradproof import adapters, oracles
from gradproof.errors import UsageError
from gradproof.given import fitting, made_real, seed_of
from gradproof.oracles import Derivative
from gradproof.rule import Primal
from gradproof.space import Vector

_MOST = 1 << 24  # entries of a Jacobian that is formed

Derivatives = Derivative | dict[str, Derivative]
Jacobian = Derivative | dict[tuple[str, str], Derivative]


@adapters.ordinary()
def jacobian(
    fn: Any,
    x: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    reset: Callable[[], Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Jacobian:
    """The numerical Jacobian of ``fn`` at ``x``, with an error for each entry.

    Args:
        fn: a function of PyTorch tensors or of NumPy arrays or numbers; its own
            gradient, if it has one, is not asked.
        x: its input, or a tuple of its arguments; descriptions too (``gradproof.arg``):
            an input that declares a set is moved along it.
        kwargs: keyword arguments of ``fn``.
        reset: called before every call, to clear a warm start or a cache.
        sizes: extents of the symbols in described inputs.
        seed: of described inputs.

    Returns:
        A ``Derivative`` whose arrays have the shape (*output, *input); where there are
        several inputs or outputs a dict of them by (output, input), as reports name
        them: {("out", "x"): …, ("out", "w"): …}.

    Raises:
        UsageError: there is nothing to differentiate, or too much to hold.
    """
    primal = _alone(fn, x, kwargs, reset, sizes, seed)
    entries = primal.domain.size * primal.codomain.size
    if entries > _MOST:
        raise UsageError(
            f"the Jacobian has {entries} entries, more than are formed ({_MOST}); ask "
            "for derivative(fn, x, direction=u)"
        )
    found = oracles.jacobian(primal)
    return next(iter(found.values())) if len(found) == 1 else found


@adapters.ordinary()
def derivative(
    fn: Any,
    x: Any,
    *,
    direction: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    reset: Callable[[], Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Derivatives | Jacobian:
    """The numerical derivative of ``fn`` at ``x``, along ``direction`` where one is given.

    Args:
        fn: as for ``jacobian``.
        x: as for ``jacobian``.
        direction: a tangent of the shape of ``x``; for several inputs a tuple with one
            for each that varies (None: that one stays). None: every entry of ``x`` in
            turn, as ``jacobian`` does.
        kwargs: as for ``jacobian``.
        reset: as for ``jacobian``.
        sizes: as for ``jacobian``.
        seed: as for ``jacobian``.

    Returns:
        A ``Derivative`` whose arrays have the shape of the output; a dict of them by
        output where there are several. Without ``direction``, as ``jacobian``.

    Raises:
        UsageError: as for ``jacobian``, and a direction of another shape, or off the set
            that an input declares.
    """
    if direction is None:
        return jacobian(fn, x, kwargs=kwargs, reset=reset, sizes=sizes, seed=seed)
    primal = _alone(fn, x, kwargs, reset, sizes, seed)
    found = oracles.along(primal, _tangent(primal, direction))
    return next(iter(found.values())) if len(found) == 1 else found


def _alone(
    fn: Any,
    x: Any,
    kwargs: Mapping[str, Any] | None,
    reset: Callable[[], Any] | None,
    sizes: Mapping[str, int] | None,
    seed: int,
) -> Primal:
    taken, extra = made_real(fn, x, kwargs, sizes, seed_of(seed))
    primal = adapters.primal(fn, taken, extra, reset=reset)
    fitting(primal)
    return primal


def _tangent(primal: Primal, direction: Any) -> Vector:
    """A direction as the user gave it, as one flat vector; on the declared set."""
    domain = primal.domain
    out = adapters.direction_of(domain, direction)
    at = oracles.chart(domain, domain.snap(primal.point))
    if (
        at is not None
        and np.abs(at.project(out) - out).max() > 1e-6 * np.abs(out).max()
    ):
        told = " and ".join(f"{words} ({path})" for path, words in at.words)
        raise UsageError(
            f"direction= leaves the set that was declared: {told}; give a tangent of it"
        )
    return out
