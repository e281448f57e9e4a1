"""The backward draws anew what the forward drew."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY, zero_got, zero_want
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look, Panel
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    masks = [_mask(p) for p in look.panels if p.rows is not None and p.bad.any()]
    if not masks or not all(masks):
        return None
    return Match(
        f"{look.name} uses another random mask than the forward",
        (
            f"got / grad_output and expected / grad_output are both 0 or {masks[0]:.6g}, at "
            "different elements",
        ),
        note="the mean over many calls is right, and the loss still goes down",
        help="save the mask that forward drew (or its seed and offset) and use it again",
    )


def _mask(p: Panel) -> float | None:
    """The scale of a mask, where G and J are masks of the same scale at other places."""
    off, none = p.bad & zero_got(p), p.bad & zero_want(p)
    if not (off.any() and none.any()) or np.any(p.bad & ~off & ~none):
        return None
    g, w = p.got[~zero_got(p)], p.want[~zero_want(p) & p.ok]
    if not len(g) or not len(w):
        return None
    scale = float(np.median(w))
    room = AMPLIFY * float(p.slack.max()) + 1e-9 * abs(scale)
    same = np.all(np.abs(g - scale) <= room) and np.all(np.abs(w - scale) <= room)
    diagonal = all((~zero(p)).sum(axis=1).max() <= 1 for zero in (zero_got, zero_want))
    return scale if same and diagonal and p.bad.sum() >= 2 else None


CARD = Card("random-mismatch", Severity.ERROR, 68, _match)
