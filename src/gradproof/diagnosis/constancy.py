"""A difference that stays what it is when the input moves."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import AMPLIFY
from gradproof.diagnosis.factors import formulas
from gradproof.diagnosis.look import Look, Panel, of_probes
from gradproof.diagnosis.requests import Request
from gradproof.diagnosis.terms import Term
from gradproof.diagnosis.varying import KEY, nearby
from gradproof.space import Vector
from gradproof.verdict import Probe

TELLING = 3  # entries in which the derivative moved and the difference did not


def wanted(look: Look) -> tuple[Request, ...]:
    """One vjp some way off."""
    return nearby(look) if look.wrong_leaves else ()


def constant(look: Look) -> Term | None:
    """A term that does not depend on the input, missing or too much; or all that is left.

    Measured for one cotangent at two points, between which the derivative moves.
    """
    here, there = _here(look), _there(look)
    if here is None or there is None or not look.wrong_leaves:
        return None
    mine = np.zeros(look.evidence.domain.size, bool)
    for leaf in look.wrong_leaves:
        mine[leaf.slice] = True
    own = AMPLIFY * (here.own + there.own)[0]
    room = here.bound[0] + there.bound[0] + own
    both = (here.ok & there.ok)[0] & mine
    moved = both & (np.abs(here.want - there.want)[0] > 8 * room)
    d, far = (here.want - here.got)[0], (there.want - there.got)[0]
    shown = moved & (np.abs(d) > 8 * room)
    if (np.abs(d - far) <= room)[both].all() and shown.sum() >= TELLING:
        fact = (
            "expected - got is the same at a nearby input, where expected is "
            "another" + _values(d[mine])
        )
        return Term(_too_much(look), (fact,))
    got, same = here.got[0], np.abs(here.got - there.got)[0] <= own
    # A factor cannot make something of nothing: a term is missing.
    nothing = (np.abs(got) <= own) & here.bad[0] & mine
    if same[mine].all() and moved.sum() >= TELLING and 2 <= nothing.sum() < mine.sum():
        fact = (
            "given is the same at a nearby input, where expected is another, and is 0 in "
            f"{int(nothing.sum())} of {int(mine.sum())} entries, where expected is not"
        )
        return Term(extra=False, facts=(fact,))
    return None


def _values(d: Vector) -> str:
    top = float(np.abs(d).max(initial=0.0))
    many = len(np.unique(np.round(d / top, 6))) if top else 0
    return (
        f", and takes {many} values in {len(d)} entries" if many <= 3 < len(d) else ""
    )


def _here(look: Look) -> Panel | None:
    """The panel of the cotangent that was asked elsewhere too."""
    if not look.evidence.probes:
        return None
    return of_probes(look.evidence.probes[:1])


def _there(look: Look) -> Panel | None:
    answer = look.evidence.answer(KEY)
    return of_probes((answer,)) if isinstance(answer, Probe) else None


def _too_much(look: Look) -> bool:
    """Whether what is given has no plain formula in an elementwise rule, as is due."""
    due, given = formulas(look)
    return due is not None and given is None
