"""The cotangent of one of several outputs is never used."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY, zero_got
from gradproof.diagnosis.card import COTANGENT, FIRST, Card, Match
from gradproof.diagnosis.factors import formulas
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.spans import cotangents
from gradproof.diagnosis.words import joined
from gradproof.space import Leaf
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if len(look.evidence.codomain) < 2:
        return None
    if look.layer == COTANGENT:
        return _only_together(look)
    ignored = _ignored(look)
    if not ignored:
        return _only_together(look)
    paths = joined(a.path for a in ignored)
    return Match(
        f"{look.name} ignores the cotangent of the output {paths}",
        (
            f"the gradient is 0 for a cotangent of {paths} alone, and the derivative is not",
        ),
        note="a loss that uses the other outputs only is right",
        help=_help(look, ignored),
        facts=("unread-cotangent",),
    )


def _help(look: Look, ignored: tuple[Leaf, ...]) -> str:
    """The contribution that is missing, as a formula where it has one."""
    paths = joined(a.path for a in ignored)
    help_ = f"add what the cotangent of {paths} contributes"
    names = cotangents(look)
    if len(ignored) != 1 or len(look.wrong_leaves) != 1:
        return help_
    at = [a.path for a in look.evidence.codomain].index(ignored[0].path)
    due = formulas(look.on(look.wrong_leaves, ignored))[0]
    if due is None:
        return help_
    name = names[at] if len(names) == len(look.evidence.codomain) else "its cotangent"
    text = f"({due.text})" if due.text.startswith("-") else due.text
    return f"{help_}: {name} · {text}"


def _ignored(look: Look) -> tuple[Leaf, ...]:
    """Outputs whose rows are all 0, if that is all that is wrong."""
    if look.block is None or not look.block.bad.any():
        return ()
    out = []
    for leaf in look.evidence.codomain:
        rows = look.block.below(leaf)
        if rows.bad.any():
            if not zero_got(rows).all():
                return ()
            out.append(leaf)
    every = Look.at(look.evidence).block
    # An output that some other input does hear is not ignored.
    unheard = all(every is not None and zero_got(every.below(a)).all() for a in out)
    return tuple(out) if unheard else ()


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
