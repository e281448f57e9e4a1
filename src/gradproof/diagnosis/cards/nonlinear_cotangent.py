"""The backward uses ȳ other than linearly."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.card import COTANGENT, FIRST, Card, Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import ORDINARY, number
from gradproof.verdict import Linearity, Severity

_LAWS = {
    "zero": "vjp(0) is not 0",
    "homogeneous": "vjp(k·g) is not k·vjp(g), with g = grad_output",
    "additive": "vjp(g₁ + g₂) is not vjp(g₁) + vjp(g₂), for two grad_outputs g",
}


def _match(look: Look) -> Match | None:
    if look.layer == FIRST:
        return _together(look)
    lin = look.linearity
    if lin is None or not lin.broken():
        return None
    how, evidence = _how(lin)
    return Match(
        f"{look.name} is not linear in its cotangent{how}",
        tuple(_LAWS[law] for law in lin.broken()) + evidence,
        note=ORDINARY["one-hot"] + ", nor can a cotangent of ones",
        help="multiply by grad_output once, as it is: no clamp, norm, sign, power or "
        "condition on its values",
    )


def _together(look: Look) -> Match | None:
    """Right for each unit cotangent alone, wrong for several at once."""
    if look.block is None or not look.whole or look.block.bad.any():
        return None
    if not any(
        p.bad.any() for p in look.panels if np.array_equal(p.point, look.block.point)
    ):
        return None
    return Match(
        f"{look.name} is not linear in its cotangent: elements act on one another",
        ("right for each element of grad_output alone, wrong where they are mixed",),
        note=ORDINARY["one-hot"],
        help="let the cotangent enter once, as a factor, with no condition on its values",
    )


def _how(lin: Linearity) -> tuple[str, tuple[str, ...]]:
    """What kind of use, told by how vjp grows with ȳ."""
    for got, k in ((lin.scaled, lin.factor), (lin.large, lin.large_factor)):
        if got is None:
            continue
        live = np.abs(lin.once) > 4 * lin.slack
        if not live.any():
            continue
        growth = got[live] / lin.once[live]
        for text, due in ((": it is used twice", k * k), (": only its size is", abs(k)),
                          (": only its sign is", float(np.sign(k)))):  # fmt: skip
            if due != k and np.allclose(growth, due, rtol=1e-5, atol=0):
                return text, (f"vjp({number(k)}·g) = {number(due)}·vjp(g)",)
    if lin.large is not None:
        live = np.abs(lin.once) > 4 * lin.slack
        if live.any():
            most = float(np.max(np.abs(lin.large[live] / lin.once[live])))
            if most < 0.5 * lin.large_factor:
                fact = f"vjp({number(lin.large_factor)}·g) is at most {number(most)}·vjp(g)"
                return ": large values are clipped or rescaled", (fact,)
    if lin.broken() == ("additive",):
        return ": cotangents act on one another", ()
    return "", ()


CARD = Card(
    "nonlinear-cotangent", Severity.ERROR, 10, _match, layers=(COTANGENT, FIRST)
)
