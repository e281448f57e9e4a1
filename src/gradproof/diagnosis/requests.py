"""What a card may ask for, as data; whoever runs the user's code answers by ``key``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gradproof.space import Vector

Coordinates: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class At:
    """One vjp at another point. Answer: a ``Probe``, measured at ``cols`` only."""

    key: str
    x: Vector
    ybar: Vector
    cols: Coordinates


@dataclass(frozen=True, eq=False)
class Block:
    """A part of the Jacobian at the same point. Answer: a ``verdict.Block``."""

    key: str
    rows: Coordinates
    cols: Coordinates


@dataclass(frozen=True, eq=False)
class BlockAt:
    """A part of the Jacobian at another point. Answer: a ``verdict.Block``.

    ``rough``: quick estimates do.
    """

    key: str
    x: Vector
    rows: Coordinates
    cols: Coordinates
    rough: bool = False


Request: TypeAlias = At | Block | BlockAt
