"""Tangents that the user gives, as flat vectors. Imports no framework."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradproof.errors import UsageError
from gradproof.space import Space, Vector


def direction_of(domain: Space, direction: Any) -> Vector:
    """A direction as the user gave it, as one flat vector.

    Raises:
        UsageError: It has not one finite array for each leaf, of the leaf's shape.
    """
    parts = direction if isinstance(direction, (tuple, list)) else (direction,)
    if len(parts) != len(domain) and len(domain) == 1:
        parts = (direction,)
    if len(parts) != len(domain):
        names = ", ".join(leaf.path for leaf in domain)
        raise UsageError(
            f"direction= has {len(parts)} parts, and one was expected for each of "
            f"{names} (None for one that stays)"
        )
    out = np.zeros(domain.size)
    for leaf, part in zip(domain, parts, strict=True):
        if part is None:
            continue
        array = part.detach().cpu().numpy() if hasattr(part, "detach") else part
        try:
            numbers = np.asarray(
                array, np.complex128 if leaf.is_complex else np.float64
            )
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"direction= is no array of numbers for {leaf.path}: {error}"
            ) from error
        if numbers.shape != leaf.shape:
            raise UsageError(
                f"direction= has shape {numbers.shape} for {leaf.path}, which has shape "
                f"{leaf.shape}"
            )
        view = domain.view(out, leaf)
        if leaf.is_complex:
            view[..., 0], view[..., 1] = numbers.real, numbers.imag
        else:
            view[...] = numbers
    if not np.isfinite(out).all():
        raise UsageError("direction= holds a number that is not finite")
    return out
