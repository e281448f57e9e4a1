"""Right when evaluated at another value: the output for the input, another row."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.requests import BlockAt, Request
from gradproof.diagnosis.saved import (
    another_stage,
    candidates,
    few_entries,
    mistaken,
    same,
)
from gradproof.verdict import Block, Severity


def _wants(look: Look) -> tuple[Request, ...]:
    """A few entries at each other value; all of them where these agree."""
    block = look.evidence.block
    if block is None or not look.wrong_leaves:
        return ()
    asked: list[Request] = []
    for key, _, x in list(candidates(look))[:6]:
        few = look.evidence.answer(f"{key}:few")
        if few is None:
            asked.append(BlockAt(f"{key}:few", x, *few_entries(block), rough=True))
        elif isinstance(few, Block) and same(look, few):
            asked.append(BlockAt(key, x, block.rows, block.cols, rough=True))
    return tuple(asked)


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


def _formula(look: Look) -> Match | None:
    found = mistaken(look)
    if found is None:
        return another_stage(look)
    used, meant, due = found
    return Match(
        f"{look.name} has the formula of {meant} and puts {used} into it",
        (f"grad_output · {due} is due, and it computes the same of {used}",),
        note=f"where {used} and {meant} are alike this passes",
        help=f"return grad_output · {due}",
        facts=("save",),
    )


LATER = Card("wrong-saved-value", Severity.ERROR, 46, _formula)
CARD = Card("wrong-saved-value", Severity.ERROR, 58, _match, _wants)
