"""A term that couples elements, as the code that a backward would have for it."""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.identify import Formula
from gradproof.diagnosis.look import Coordinates, Look, Panel
from gradproof.diagnosis.spans import local_names
from gradproof.space import Leaf

_AT_INPUT, _AT_OUTPUT = " at the input's index", " at the output's index"


def contraction(
    look: Look,
    p: Panel,
    into: Leaf,
    out: Leaf,
    term: Formula,
    where: tuple[Coordinates, Coordinates],
) -> str:
    """``c * a * (b * {grad}).sum(axes, keepdim=True)`` for the term c·a_j·b_i of J_ij.

    ``where`` holds row and column of each entry of the block p at which the term stands. "" where the term couples no elements, or not all along some
    axes, or where a name in it is none that can be written.
    """
    assert p.rows is not None
    if into.shape != out.shape or into.is_complex or out.is_complex:
        return ""
    i, j = where
    rows = np.unravel_index(p.rows[i] - out.start, out.shape)
    cols = np.unravel_index(p.cols[j] - into.start, into.shape)
    axes = [
        k for k, (r, c) in enumerate(zip(rows, cols, strict=True)) if np.any(r != c)
    ]
    along = int(np.prod([out.shape[k] for k in axes]))
    if not axes or len(i) != out.size * along:
        return ""
    names = local_names(look)
    at_input: list[str] = []
    at_output = ["{grad}"]
    for name, text in term.parts:
        bare = name.removesuffix(_AT_INPUT).removesuffix(_AT_OUTPUT)
        written = names.get(bare.removesuffix(" (the output)"), bare)
        if not written.isidentifier():
            return ""
        inner = name == into.path or name.endswith(_AT_INPUT)
        (at_input if inner else at_output).append(_code(text, name, written))
    last = axes == [len(out.shape) - 1]
    which = "-1" if last else str(axes[0] if len(axes) == 1 else tuple(axes))
    inside = " * ".join([*at_output[1:], at_output[0]])
    inside = inside if len(at_output) == 1 else f"({inside})"
    total = f"{inside}.sum({which}, keepdim=True)"
    return _constant(term.constant) + " * ".join([*at_input, total])


def _code(text: str, name: str, written: str) -> str:
    shown = text if name == written else text.replace(f"({name})", written)
    return shown.replace(name, written).replace("·", " * ")


def _constant(word: str) -> str:
    return word.replace(" · ", " * ")
