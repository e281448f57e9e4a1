"""The backward belongs to a different function than the forward computes."""

from __future__ import annotations

from gradproof.diagnosis.activations import activation
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.coefficients import coefficients, scaled
from gradproof.diagnosis.look import Look
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    named = activation(look)
    if named is not None:
        right, mine = named
        return Match(
            f"{look.name} is the gradient of {mine}, and the forward computes {right}",
            (f"the gradient is that of {mine} everywhere, and that of {right} is due",),
            note="the two functions differ by little, and so do their gradients",
            help=f"differentiate {right}, or let the forward compute {mine}",
        )
    return None


def _structure(look: Look) -> Match | None:
    """The same terms with other coefficients in every row: an epsilon, a count."""
    found = coefficients(look)
    if found is not None and found.constant:
        return None
    if found is not None:
        how = f"off the diagonal, got / expected is one number in each group, {found.text}"
    else:
        which = scaled(look)
        if not which:
            return None
        how = (
            f"got / expected is one number in each group but for one direction, {which}"
        )
    return Match(
        f"{look.name} has the terms of the forward's derivative with other coefficients",
        (how,),
        note="where the two coincide (inputs of ordinary size) this passes",
        help="use the very number of the forward: the same epsilon in the same place, "
        "the same count, the same statistic",
    )


LATER = Card("forward-mismatch", Severity.ERROR, 49, _structure)
CARD = Card("forward-mismatch", Severity.ERROR, 67, _match)
