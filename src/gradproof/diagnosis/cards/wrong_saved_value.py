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
from gradproof.diagnosis.spans import saved_for
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
                f"{look.name} is the gradient at another value, with {words}",
                (
                    f"the Jacobian measured with {words} is what got implies, everywhere",
                ),
                note="at a fixed point of the function, or with one row, this is right",
                help=_save(look, words)
                or f"save and use what the derivative is taken at, not {words}",
                facts=("save",),
            )
    return None


def _save(look: Look, words: str) -> str:
    """The line of the forward that saves another value, and what to save there."""
    used, _, meant = words.partition(" in the place of ")
    line, saved, name = saved_for(look, used.removeprefix("the output "), meant)
    return f"in line {line} save {name}, not {saved}" if line else ""


def _formula(look: Look) -> Match | None:
    found = mistaken(look)
    if found is None:
        return another_stage(look)
    used, meant, due = found
    line, saved, name = saved_for(look, used, meant)
    return Match(
        f"{look.name} computes with {used} where {meant} belongs",
        (
            f"got is grad_output · {due.replace(meant, used)}, and grad_output · {due} is due",
        ),
        note=f"where {used} and {meant} are alike this passes",
        help=f"in line {line} save {name}, not {saved}; the formula is right"
        if line
        else f"save {meant} in forward, not {used}, and compute grad_output · {due} with it",
        facts=("save",),
    )


LATER = Card("wrong-saved-value", Severity.ERROR, 46, _formula)
CARD = Card("wrong-saved-value", Severity.ERROR, 58, _match, _wants)
