"""Sentences that several cards share; a card's own sentences stand in the card."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

ORDINARY = {
    "ones": "`y.sum().backward()` hides this: it sends grad_output = 1",
    "one-hot": "checks that send one unit cotangent at a time cannot see this",
    "contiguous": "tests send a contiguous `grad_output`; layers downstream may not",
    "once": "a test that runs forward and backward once cannot see this",
    "tolerance": "a tolerance of 1e-3 or a random tolerance per entry lets this pass",
    "training": "the loss still goes down, only not along the gradient",
    "shape": "the shape of the gradient is right, so nothing crashes",
}


def number(v: float) -> str:
    """A number of a few digits, as in 1.5, -0.3333, 2.1e-13.

    One next to 1 or -1 has as many as tell it from there: 1.0000003.
    """
    if not np.isfinite(v):
        return str(v)
    off = abs(abs(v) - 1.0)
    digits = 1 - int(np.floor(np.log10(off))) if 1e-9 < off < 1e-3 else 4
    return f"{v:.{max(digits, 4)}g}"


def joined(names: Iterable[str]) -> str:
    """Names as in "a", "a and b", "a, b and c"."""
    items = list(names)
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def plural(n: int, noun: str) -> str:
    """As in "1 entry", "3 entries"."""
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun[:-1]}ies" if noun.endswith("y") else f"{n} {noun}s"


def gradient_of(paths: Iterable[str]) -> str:
    """As in "the gradient of x", "the gradients of x and y"."""
    items = list(paths)
    return f"the gradient{'s' if len(items) > 1 else ''} of {joined(items)}"


def unexplained(paths: Iterable[str]) -> str:
    """What is said of inputs that are wrong in a way that no card explains."""
    items = list(paths)
    verb = "is" if len(items) == 1 else "are"
    return (
        f"{gradient_of(items)} {verb} wrong too, in a way that this does not explain: "
        "more than one mistake may be at work"
    )
