"""The cotangent of one of several outputs is never used."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.card import COTANGENT, FIRST, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.outputs import contribution, ignored
from gradproof.diagnosis.words import joined
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if len(look.evidence.codomain) < 2:
        return None
    if look.layer == COTANGENT:
        return _only_together(look)
    outs = ignored(look)
    if not outs:
        return _only_together(look)
    paths = joined(a.path for a in outs)
    return Match(
        f"{look.name} ignores the cotangent of the output {paths}",
        (
            f"the gradient is 0 for a cotangent of {paths} alone, and the derivative is not",
        ),
        note="a loss that uses the other outputs only is right",
        help=contribution(look, outs),
        facts=("unread-cotangent",),
    )


def _only_together(look: Look) -> Match | None:
    """Right for each output alone, but together one of them wins (if/elif)."""
    lin, whole = look.linearity, look.block
    if lin is None or whole is None or not look.whole:
        return None
    if whole.bad.any() or set(lin.broken()) - {"additive"}:
        return None
    for leaf in look.evidence.codomain:
        kept = lin.cotangent.copy()
        kept[leaf.slice] = 0.0
        made, error = kept @ whole.want, np.abs(kept) @ whole.bound
        share = (lin.cotangent - kept) @ whole.want
        room = error + AMPLIFY * lin.slack[whole.cols]
        # An output that is empty, or constant, contributes nothing and is not missed.
        missed = np.abs(share) > 2.0 * room
        if missed.any() and np.all(np.abs(lin.once[whole.cols] - made) <= room):
            return Match(
                f"{look.name} ignores the cotangent of the output {leaf.path} when the "
                "others have one too",
                ("right for each output alone; for all at once "
                 f"the gradient is what it would be without {leaf.path}",),
                note="tests that differentiate one output at a time pass",
                help="add the contributions of all outputs (no `elif` between them)",
            )  # fmt: skip
    return None


CARD = Card("ignored-output", Severity.ERROR, 92, _match, layers=(COTANGENT, FIRST))
