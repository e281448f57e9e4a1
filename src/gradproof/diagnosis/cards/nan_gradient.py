"""NaN or inf where the derivative is finite."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import wrong_columns
from gradproof.diagnosis.predicates import predicate
from gradproof.diagnosis.words import gradient_of
from gradproof.verdict import Severity


def _match(look: Look) -> Match | None:
    odd = [~np.isfinite(p.got) & p.bad for p in look.panels]
    count = sum(int(o.sum()) for o in odd)
    if not count:
        return None
    rest = sum(int((p.bad & ~o).sum()) for p, o in zip(look.panels, odd, strict=True))
    if rest > count:
        return None
    nans = any(np.isnan(p.got[o]).any() for p, o in zip(look.panels, odd, strict=True))
    paths = [a.path for a in look.wrong_leaves]
    when = predicate(look, wrong_columns(look))
    where = f" where {when}" if when else ""
    return Match(
        f"{look.name} gives {'NaN' if nans else 'inf'} for {gradient_of(paths)}{where}, "
        "where the derivative is finite",
        (f"{count} measured entries are not finite; the derivative there is",),
        note="one such entry turns every parameter it reaches into NaN",
        help="replace the input by a harmless value first, then mask the result, for 0 · inf "
        "is NaN: `safe = torch.where(ok, x, 1)`, and `torch.where(ok, gradient at safe, 0)`",
    )


CARD = Card("nan-gradient", Severity.ERROR, 98, _match)
