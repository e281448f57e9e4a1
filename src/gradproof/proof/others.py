"""Other ways and settings of what is large: on arrays, as far as nothing is odd there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradproof.checks import narrower, overflow, ways
from gradproof.checks.bulk import Question
from gradproof.checks.gradient import Compared
from gradproof.checks.settings import GROSS
from gradproof.proof.elsewhere import (
    asked_ways,
    compiled,
    other_settings,
    overflowing,
)
from gradproof.proof.run import Options, Run
from gradproof.rule import Rule
from gradproof.verdict import Asked, Elsewhere, Limit, Undecided, Verdict

OTHERS = "other ways of asking"
NARROW = "float32"
NONE = np.zeros(0)


@dataclass(frozen=True)
class Others:
    """What became of the other ways and settings."""

    asked: tuple[Asked, ...]
    elsewhere: tuple[Elsewhere, ...]
    overflow: tuple[float, float, str] | None
    undecided: tuple[Undecided, ...] = ()
    notes: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()


def others(
    rule: Rule,
    options: Options,
    seen: Question,
    found: Compared,
    vectors: Callable[[], Run],
) -> Others:
    """Ask on arrays; ``vectors`` makes the run that what is left is asked by."""
    options.reached(OTHERS, 0.6)
    arrays = seen.rule
    settled = ways.together(rule, arrays.point, seen.ybar, seen.xbar)
    options.reached(OTHERS, 0.85)
    every = rule.ways()
    run: Run | None = None
    undecided: tuple[Undecided, ...] = ()
    notes: tuple[str, ...] = ()
    if ways.left(every, settled) or rule.has_jvp or options.compile:
        run = vectors()
        built = compiled(run)
        undecided, notes = built.undecided, built.notes
        asked = asked_ways(run, found, settled) + built.asked
    else:
        asked = ways.asked(rule, NONE, NONE, NONE, every, settled)
    elsewhere: tuple[Elsewhere, ...] = ()
    limits: tuple[Limit, ...] = ()
    if all(leaf.precision == "float64" for leaf in rule.primal.domain):
        if narrower.agrees(rule, arrays, seen.start, seen.ybar, NARROW):
            elsewhere = (Elsewhere(NARROW, "dtype", Verdict.PASS),)
            limits = (Limit(f"in {NARROW}", GROSS[NARROW]),)
        else:
            elsewhere = other_settings(run or vectors(), None, found)
    options.reached(OTHERS, 0.95)
    beyond = None if overflow.tame(arrays) else overflowing(rule)
    return Others(asked, elsewhere, beyond, undecided, notes, limits)
