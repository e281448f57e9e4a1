"""Outputs whose cotangent a backward never uses."""

from __future__ import annotations

from gradproof.diagnosis.algebra import zero_got
from gradproof.diagnosis.factors import formulas
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.spans import cotangents
from gradproof.diagnosis.words import joined
from gradproof.space import Leaf


def contribution(look: Look, outs: tuple[Leaf, ...]) -> str:
    """The contribution that is missing, as a formula where it has one."""
    paths = joined(a.path for a in outs)
    help_ = f"add what the cotangent of {paths} contributes"
    names = cotangents(look)
    if len(outs) != 1 or len(look.wrong_leaves) != 1:
        return help_
    at = [a.path for a in look.evidence.codomain].index(outs[0].path)
    due = formulas(look.on(look.wrong_leaves, outs))[0]
    if due is None:
        return help_
    name = names[at] if len(names) == len(look.evidence.codomain) else "its cotangent"
    text = f"({due.text})" if due.text.startswith("-") else due.text
    return f"{help_}: {name} · {text}"


def ignored(look: Look) -> tuple[Leaf, ...]:
    """Outputs whose rows are all 0, if that is all that is wrong."""
    if look.block is None or not look.block.bad.any():
        return ()
    out = []
    for leaf in look.evidence.codomain:
        rows = look.block.below(leaf)
        if rows.bad.any():
            if not zero_got(rows).all():
                return ()
            out.append(leaf)
    every = Look.at(look.evidence).block
    # An output that some other input does hear is not ignored.
    unheard = all(every is not None and zero_got(every.below(a)).all() for a in out)
    return tuple(out) if unheard else ()
