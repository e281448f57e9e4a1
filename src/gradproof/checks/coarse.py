"""Does the forward round its results to fewer digits than their dtype has?

A kernel that computes in bfloat16 behind a float32 interface is a staircase: flat where
one looks closely, and jumping from stair to stair. Its derivative is 0 there as a fact and
never as a meaning, so a flat difference says nothing about the rule.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.space import Leaf, Mask, Space, Vector, unit
from gradproof.verdict import Block, Code

NARROW = {"float16": 11, "bfloat16": 8}  # significand bits
ENOUGH = 4  # results from which a precision can be told
# A grid that the user chose (quarters, integers) needs few bits for most numbers.
MOST_BITS = 3


def coarse(value: Vector, codomain: Space) -> Mask:
    """Outputs that hold numbers of float16 or bfloat16 in a wider dtype."""
    out = np.zeros(codomain.size, dtype=bool)
    for leaf in codomain:
        part = value[leaf.slice]
        some = part[np.isfinite(part) & (part != 0)]
        if np.unique(np.abs(some)).size < ENOUGH:
            continue
        for name, bits in NARROW.items():
            if unit(name) > unit(leaf.precision) and _fits(some, name, bits):
                out[leaf.slice] = True
    return out


def _fits(values: Vector, name: str, bits: int) -> bool:
    if not np.array_equal(_narrow(values, name), values):
        return False
    mantissa, _ = np.frexp(np.abs(values))
    needed = np.array([_bits(m, bits) for m in mantissa])
    return bool(np.median(needed) >= bits - MOST_BITS)


def _bits(mantissa: float, bits: int) -> int:
    """Significand bits that a number in [½, 1) of at most ``bits`` bits needs."""
    whole = int(mantissa * 2**bits)
    return bits - ((whole & -whole).bit_length() - 1)


def _narrow(values: Vector, name: str) -> Vector:
    return Space.of([Leaf("v", values.shape, name)]).snap(values)


def unheard(block: Block, value: Vector, codomain: Space) -> Block:
    """``block`` without an answer where a coarse output was found to be flat.

    An output that follows a small step of some input is no staircase: it holds such
    numbers because it was given some, as a maximum does.
    """
    rows = coarse(value, codomain)[block.rows]
    if not rows.any():
        return block
    with np.errstate(invalid="ignore"):
        sharp = block.bound <= 1e-3 * np.abs(block.value)
        follows = sharp & (block.value != 0) & (block.code == Code.OK)
        rows &= ~follows.any(axis=1)
        flat = np.abs(block.value) <= 1e-3 * np.abs(block.implied)
    nothing = rows[:, None] & flat & block.wrong
    if not nothing.any():
        return block
    return replace(block, code=np.where(nothing, np.int8(Code.NOISE), block.code))
