"""Right when evaluated at another value: the output for the input, another row."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.requests import BlockAt, Request
from gradproof.diagnosis.saved import another_stage, candidates, same
from gradproof.verdict import Block, Severity


def _wants(look: Look) -> tuple[Request, ...]:
    block = look.evidence.block
    if block is None or not look.wrong_leaves:
        return ()
    return tuple(
        BlockAt(key, x, block.rows, block.cols)
        for key, _, x in list(candidates(look))[:6]
    )


def _match(look: Look) -> Match | None:
    for key, words, _ in candidates(look):
        there = look.evidence.answer(key)
        if isinstance(there, Block) and same(look, there):
            return Match(
                f"{look.name} is the gradient at another value: {words}",
                (f"the Jacobian measured with {words} is what it implies, everywhere",),
                note="at a fixed point of the function, or with one row, this is right",
                help=f"save what the derivative is taken at, not {words}",
                facts=("save",),
            )
    return None


LATER = Card("wrong-saved-value", Severity.ERROR, 46, another_stage)
CARD = Card("wrong-saved-value", Severity.ERROR, 58, _match, _wants)
