"""The backward belongs to a different function than the forward computes."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.coefficients import coefficients
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.neighbours import NEIGHBOURS
from gradproof.diagnosis.requests import Neighbour, Request
from gradproof.verdict import Block, Code, Severity


def _wants(look: Look) -> tuple[Request, ...]:
    modes = [name for name, _ in look.evidence.scalars if name in _MODES]
    if not look.wrong_leaves:
        return ()
    return tuple(Neighbour(f"mode:{m}", f"{m}=not {m}") for m in modes)


_MODES = ("training", "train", "approximate", "approx", "causal", "unbiased", "bias")


def _match(look: Look) -> Match | None:
    named = _activation(look)
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


def _activation(look: Look) -> tuple[str, str] | None:
    """(function of the forward, function of the backward) of a known pair."""
    if len(look.wrong_leaves) != 1 or len(look.evidence.codomain) != 1:
        return None
    leaf, out = look.wrong_leaves[0], look.evidence.codomain.leaves[0]
    p = look.block
    if p is None or p.rows is None or leaf.size != out.size or leaf.is_complex:
        return None
    on = (p.rows - out.start)[:, None] == (p.cols - leaf.start)[None, :]
    if not on.any() or np.any(np.abs(p.got[~on]) > AMPLIFY * p.own[~on]):
        return None
    x = look.value_of(leaf)[p.cols[np.nonzero(on)[1]] - leaf.start]
    for group in NEIGHBOURS:
        with np.errstate(all="ignore"):
            slopes = {name: slope(x) for name, slope in group.items()}
        right = [n for n, s in slopes.items() if _near(p, on, p.want, s)]
        mine = [n for n, s in slopes.items() if _near(p, on, p.got, s)]
        if len(right) == 1 and len(mine) == 1 and right != mine:
            return right[0], mine[0]
    return None


def _near(p: Panel, on: np.ndarray, numbers: np.ndarray, slope: np.ndarray) -> bool:
    room = (p.bound + AMPLIFY * p.own)[on] + 1e-12
    return bool(np.all(np.abs(numbers[on] - slope)[p.ok[on]] <= room[p.ok[on]]))


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
