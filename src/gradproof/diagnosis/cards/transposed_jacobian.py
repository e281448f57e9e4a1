"""J is applied where Jᵀ is due."""

from __future__ import annotations

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.transposes import leaf_transposed, map_transposed, mended
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if not look.wrong_leaves:
        return None
    for leaf in look.wrong_leaves:
        if not (map_transposed(look, leaf) or leaf_transposed(look, leaf)):
            return None
    paths = ", ".join(a.path for a in look.wrong_leaves)
    if all(map_transposed(look, a) for a in look.wrong_leaves):
        return Match(
            f"{look.name} applies the Jacobian where its transpose is due (for {paths})",
            (
                "what it implies for output i and input j is the derivative of output j by input i",
            ),
            note="a symmetric operator, or a single element, hides this",
            help="apply the transposed operator to grad_output, as in `a.mT @ grad_output` for a forward of `a @ x`",
        )
    return Match(
        f"{look.name} returns the gradient of {paths} transposed",
        (f"got agrees once the last two axes of {paths} are exchanged",),
        note="the matrix is square, so nothing crashes",
        help="transpose the last two axes",
        repaired=mended(look),
        agreed="got transposed",
        new="({old}).mT",
    )


CARD = Card("transposed-jacobian", Severity.ERROR, 80, _match)
