"""Off by one, or permuted, in index or time."""

from __future__ import annotations

from gradproof.diagnosis import places
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.structure import scattered
from gradproof.space import Matrix
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    if len(look.wrong_leaves) == 1:
        leaf = look.wrong_leaves[0]
        for how, source in places.arrangements(leaf, look.evidence.domain):
            if places.fits(look, source):
                said = f"the gradient is {how} of {leaf.path}"
                return _say(
                    look,
                    said,
                    leaf.path,
                    places.undone(look, source),
                    places.unrolled(how),
                )
        if places.permuted(look):
            return _say(
                look,
                f"the entries of the gradient are permuted in {leaf.path}",
                leaf.path,
            )
        moved = places.elsewhere(look)
        if moved >= 4:
            said = f"what is due to {moved} elements of {leaf.path} stands at others"
            return _say(look, said, leaf.path)
        for _, out, p in look.pairs():
            along = scattered(p, leaf)
            if along is not None:
                return _say(look, f"what {out.path} owes one index along axis {along} of "
                            f"{leaf.path} is given to another", leaf.path)  # fmt: skip
    return _rows(look)


def _say(
    look: Look,
    how: str,
    path: str,
    back: tuple[Matrix, ...] | None = None,
    roll: tuple[int, int] | None = None,
) -> Match:
    return Match(
        f"{look.name} puts the gradient of {path} at the wrong index",
        (f"{how}; undone, it agrees with the oracle",) if back is not None else (how,),
        note="sums and norms of the gradient are right, and so are constant inputs",
        help="check the index arithmetic: which output each element of the input feeds, or "
        "move the result back",
        repaired=back,
        agreed="got put back in its place",
        new=f"({{old}}).roll({roll[0]}, {roll[1]})" if roll else "",
    )


def _rows(look: Look) -> Match | None:
    """The cotangent is read at another index: rows of the Jacobian are permuted."""
    out = places.reordered(look)
    if out is None:
        return None
    return Match(
        f"{look.name} reads the cotangent of {out.path} at the wrong index",
        ("the rows of the Jacobian are right, in another order",),
        note="a constant cotangent, as of `.sum()`, hides this",
        help="check the index arithmetic of the cotangent",
    )


CARD = Card("shifted-index", Severity.ERROR, 69, _match)
