"""The last resort: wrong, and no known mistake explains it."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.factors import computed
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import gradient_of, number
from gradproof.verdict import Severity

SEVERAL = "no single known mistake explains this; there may be more than one"
NEXT = (
    "print the right backward with `gradproof check --suggest` (`suggest=True` in "
    "`gradproof.check`), or compare with a plain implementation (`reference=`)"
)


def _match(look: Look) -> Match | None:
    paths = [a.path for a in look.wrong_leaves] or [a.path for a in look.leaves]
    wrong, total = look.counts
    evidence = []
    if wrong:
        evidence.append(f"{wrong} of {total} measured entries are wrong")
    known = computed(look)
    if known is not None:
        rest = f", and grad_output · {known.due.text} is due" if known.due else ""
        evidence.append(f"it computes grad_output · {known.given.text}{rest}")
    ratios = _ratios(look)
    if ratios:
        evidence.append(f"got / expected lies between {ratios[0]} and {ratios[1]}")
    due = known.due.text if known is not None and known.due is not None else ""
    return Match(
        f"{look.name} returns a wrong value for {gradient_of(paths)}",
        tuple(evidence),
        note=("" if due else SEVERAL),
        help=f"return grad_output · {due}" if due else NEXT,
    )


def _ratios(look: Look) -> tuple[str, str] | None:
    found = []
    for p in look.panels:
        live = p.bad & (np.abs(p.want) > 8 * p.slack) & np.isfinite(p.got)
        found.append(p.got[live] / p.want[live])
    every = np.concatenate(found) if found else np.zeros(0)
    if len(every) < 2:
        return None
    return number(float(every.min())), number(float(every.max()))


CARD = Card("wrong-gradient", Severity.ERROR, -100, _match)
