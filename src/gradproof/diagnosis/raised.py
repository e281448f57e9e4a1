"""What an exception of the plain vjp says about the form of a rule."""

from __future__ import annotations

import re

from gradproof.verdict import Failure

# Slug of the mistake, and what the message of its exception contains.
_SIGNS = (
    (
        "wrong-arity",
        r"incorrect number of gradients|expected \d+.*gradients?.*got \d+"
        r"|returned \d+ gradients? for \d+ inputs?",
    ),
    ("wrong-shape", r"invalid gradient at index|gradient.*shape|shape.*gradient"),
    ("wrong-device", r"same device|expected.*on device|is on (cpu|cuda)"),
    ("wrong-dtype", r"same dtype|expected scalar type|gradient.*dtype|mat2? .*dtype"),
    ("no-graph", r"does not require grad|does not have a grad_fn"),
    ("mutated-input", r"modified by an inplace operation"),
)


def slug_of(failure: Failure) -> str:
    """The mistake that an exception's message tells, or "backward-raises"."""
    for slug, sign in _SIGNS:
        if re.search(sign, failure.message, re.IGNORECASE | re.DOTALL):
            return slug
    return "backward-raises"


def quoted(failure: Failure) -> str:
    """The exception as one line: its class and the first line of its message."""
    lines = failure.message.strip().splitlines()
    first = lines[0] if lines else ""
    return f"{failure.kind}: {first}".rstrip(": ")
