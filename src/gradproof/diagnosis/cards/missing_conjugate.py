"""A conjugate is forgotten."""

from __future__ import annotations

from collections.abc import Callable

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.conjugates import KINDS, agree, conjugated
from gradproof.diagnosis.look import Look, Panel
from gradproof.diagnosis.spectrum import half_spectrum
from gradproof.diagnosis.words import joined
from gradproof.space import Matrix
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    leaves = look.wrong_leaves
    outs = [a for a in look.evidence.codomain if a.is_complex]
    if not leaves or look.block is None:
        return None
    half = half_spectrum(look)
    if half is not None:
        return Match(
            f"{look.name} counts the bins of a half spectrum {half} for "
            f"{joined(a.path for a in leaves)}",
            ("every bin but the first and the last stands for two, of which the "
             "conjugate is not stored",),
            note="the first bin, and so a constant signal, is right",
            help="give bins that stand for two their weight once: the adjoint of rfft is "
            "not irfft",
        )  # fmt: skip
    if not (any(a.is_complex for a in leaves) or outs):
        return None
    for into, outof in KINDS:
        flip = conjugated(look.evidence.domain, look.evidence.codomain, into, outof)
        if all(agree(look, leaf, flip) for leaf in leaves):
            return _say(look, into, outof, flip)
    return None


def _say(look: Look, into: bool, outof: bool, flip: Callable[[Panel], Matrix]) -> Match:  # noqa: FBT001
    what = "a conjugate" if into and outof else "the conjugate of the result"
    if outof and not into:
        what = "the conjugate of the cotangent"
    assert look.block is not None
    return Match(
        f"{look.name} forgets {what} for {', '.join(a.path for a in look.wrong_leaves)}",
        ("the conjugate of got agrees with the oracle; for real numbers it is right",),
        note="real inputs hide this",
        help="conjugate the factors that multiply the cotangent: "
        "grad_output * b.conj() where it says grad_output * b",
    )


CARD = Card("missing-conjugate", Severity.ERROR, 86, _match)
