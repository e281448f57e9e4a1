"""Assigned where it must be added."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.contributions import another_output, losses, one_place
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import joined, plural
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if look.block is None or not look.wrong_leaves:
        return None
    paths = joined(a.path for a in look.wrong_leaves)
    lost = [losses(look.block.within(a)) for a in look.wrong_leaves]
    if all(n > 0 for n in lost):
        return _say(look, paths, f"{plural(sum(lost), 'element')} of {paths} receive one of "
                    "several contributions, the others are lost")  # fmt: skip
    if len(look.wrong_leaves) == 1:
        leaf = look.wrong_leaves[0]
        if another_output(look, leaf):
            return _say(look, paths, f"{paths} feeds several outputs; the contribution of "
                        "only some arrives")  # fmt: skip
        if one_place(look.block.within(leaf), leaf):
            return _say(look, paths, "every row of the gradient is written to one row, so that only "
                        "the last survives")  # fmt: skip
    return None


def _say(look: Look, paths: str, fact: str) -> Match:
    return Match(
        f"{look.name} assigns where it must add, in the gradient of {paths}",
        (fact,),
        note="unique indices, windows that do not overlap, or one row hide this",
        help="accumulate: `index_add_`, `scatter_add_`, `index_put_(…, accumulate=True)` "
        "or `+=` in place of an assignment",
        facts=("fills",),
    )


CARD = Card("overwritten-accumulation", Severity.ERROR, 72, _match)
