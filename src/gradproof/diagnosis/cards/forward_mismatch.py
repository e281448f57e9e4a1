"""The backward belongs to a different function than the forward computes."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.activations import activation
from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.coefficients import coefficients
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.requests import Neighbour, Request
from gradproof.verdict import Block, Code, Severity


def _wants(look: Look) -> tuple[Request, ...]:
    modes = [name for name, _ in look.evidence.scalars if name in _MODES]
    if not look.wrong_leaves:
        return ()
    return tuple(Neighbour(f"mode:{m}", f"{m}=not {m}") for m in modes)


_MODES = ("training", "train", "approximate", "approx", "causal", "unbiased", "bias")


def _match(look: Look) -> Match | None:
    named = activation(look)
    if named is not None:
        right, mine = named
        return Match(
            f"{look.name} is the gradient of {mine}, and the forward computes {right}",
            (f"x̄ is {mine}' everywhere, and {right}' is due",),
            note="the two functions differ by little, and so do their gradients",
            help=f"differentiate {right}, or let the forward compute {mine}",
        )
    for key, answer in look.evidence.answers:
        if (
            key.startswith("mode:")
            and isinstance(answer, Block)
            and _fits(look, answer)
        ):
            return Match(
                f"{look.name} is the gradient of the forward in another mode "
                f"({key[5:]})",
                ("measured in that mode, the Jacobian is what the backward implies",),
                note="a test in the other mode passes",
                help="let the backward take the same branch as the forward",
            )
    return None


def _fits(look: Look, there: Block) -> bool:
    block = look.evidence.block
    if block is None or there.value.shape != block.implied.shape:
        return False
    ok = there.code == Code.OK
    room = there.bound + AMPLIFY * (block.own + there.own)
    return bool((np.abs(block.implied - there.value) <= room)[ok].all() and ok.any())


def _structure(look: Look) -> Match | None:
    """The same terms with other coefficients in every row: an epsilon, a count."""
    found = coefficients(look)
    if found is None or found.constant:
        return None
    return Match(
        f"{look.name} has the terms of the forward's derivative with other coefficients",
        (f"off the diagonal, x̄ / expected is one number in each group, {found.text}",),
        note="where the two coincide (inputs of ordinary size) this passes",
        help="use the very number of the forward: the same epsilon in the same place, "
        "the same count, the same statistic",
    )


LATER = Card("forward-mismatch", Severity.ERROR, 49, _structure)
CARD = Card("forward-mismatch", Severity.ERROR, 67, _match, _wants)
