"""Numbers for what is large: drawn, looked over, and room to write them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradproof.checks.summing import Odd
from gradproof.rule import BulkRule
from gradproof.space import Leaf, Space

SAMPLE = 1 << 14  # entries of which a typical size is taken
_GRID = 64  # cotangents are odd multiples of 1/64


def sample(a: Any) -> Any:
    """Some entries of an array, for what is usual of all."""
    flat = a.reshape(-1)
    return flat[:: max(1, len(flat) // SAMPLE)]


class Numbers:
    """A large rule, what is drawn for it, and arrays that are written on again."""

    def __init__(self, rule: BulkRule, rng: np.random.Generator) -> None:
        """Begin with no room taken."""
        self.rule, self.rng, self.xp, self.cast = rule, rng, rule.xp, rule.cast
        self.domain, self.codomain = rule.domain, rule.codomain
        self.evaluations = self.vjps = 0
        self.rooms: dict[tuple[str, int, str], Any] = {}
        wide = any(a.precision == "float64" for a in (*rule.domain, *rule.codomain))
        self.work = "float64" if wide else "float32"

    def room(self, side: str, k: int, leaf: Leaf, precision: str) -> Any:
        """An array to write on; a fresh one for each number would cost more than it."""
        key = (side, k, precision)
        if key not in self.rooms:
            self.rooms[key] = self.rule.empty(leaf.view_shape, precision)
        return self.rooms[key]

    def finite(self, arrays: Sequence[Any]) -> list[float]:
        """The largest |a| of each; ``Odd`` where there is an entry that is no number."""
        tops = [self.rule.top(a) for a in arrays]
        if not np.isfinite(tops).all():
            raise Odd
        return tops

    def bits(self, leaf: Leaf) -> Any:
        """A random byte for each entry, from −128 to 127."""
        words = self.rng.bit_generator.random_raw(-(-leaf.size // 8))
        some = np.atleast_1d(words).view(np.int8)[: leaf.size]
        return self.rule.array(replace(leaf, precision="int8"), some)

    def signs(self, leaf: Leaf) -> Any:
        """±1 in a byte for each entry."""
        drawn = self.bits(leaf)
        drawn >>= 7
        drawn |= 1
        return drawn

    def drawn(self, space: Space) -> list[Any]:
        """A cotangent, or what is like one, for each leaf.

        ± an odd number of 64ths in [33, 95], so never 1.
        """
        return [self._cotangent(leaf) for leaf in space]

    def _cotangent(self, leaf: Leaf) -> Any:
        drawn = self.bits(leaf)
        sign = drawn >> 7
        drawn &= 31
        drawn *= 2
        drawn += 33
        drawn ^= sign  # which with the next line negates where the sign is −1
        drawn -= sign
        out = self.cast(drawn, leaf.precision)
        out *= 1.0 / _GRID
        return out
