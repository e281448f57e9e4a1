"""None or zeros for an input that has a gradient."""

from __future__ import annotations

from gradproof.diagnosis.algebra import zero_got
from gradproof.diagnosis.card import Card, Match
from gradproof.diagnosis.factors import formulas
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import gradient_of, joined
from gradproof.space import Leaf
from gradproof.verdict import Severity

DATA = "; where it is data that needs none, pass it as arg.fixed"


def _match(look: Look) -> Match | None:
    absent = [a for a in look.wrong_leaves if _nothing(look, a)]
    if not absent:
        return None
    none = {r.path for r in look.evidence.form.returned if r.is_none}
    none |= set(look.evidence.form.unused)
    paths = [a.path for a in absent]
    what = "None" if set(paths) <= none else "zeros"
    cuts = look.evidence.form.cuts
    return Match(
        f"{look.name} returns {what} for {joined(paths)}, which has a gradient"
        if len(paths) == 1
        else f"{look.name} returns {what} for {joined(paths)}, which have gradients",
        tuple(
            f"the gradient of {p} is 0 for every grad_output; the derivative is not"
            for p in paths
        )
        + tuple(f"the graph is cut at {cut}" for cut in cuts),
        note="a parameter without gradient is skipped by the optimiser in silence",
        help=_help(look, absent) + (DATA if what == "None" else ""),
        paths=tuple(paths),
    )


def _help(look: Look, absent: list[Leaf]) -> str:
    paths = [a.path for a in absent]
    due = formulas(look.on((absent[0],)))[0] if len(absent) == 1 else None
    if due is None:
        return f"return {gradient_of(paths)} as well"
    return f"return grad_output · {due.text} for {paths[0]}"


def _nothing(look: Look, leaf: Leaf) -> bool:
    return all(zero_got(p.within(leaf)).all() for p in look.panels)


CARD = Card("missing-gradient", Severity.ERROR, 90, _match)
