"""A mistake is a card: one predicate on evidence, one repair, one page of prose."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from gradproof.space import Matrix
from gradproof.verdict import Failure, Severity, Worst

if TYPE_CHECKING:
    from gradproof.diagnosis.look import Look
    from gradproof.diagnosis.requests import Request

# What a card explains. A cause found in one layer keeps quiet those of its echoes that
# the later layers would hear.
FORM = "form"  # there is no gradient to judge
PURITY = "purity"  # the answer changes from call to call
COTANGENT = "cotangent"  # the answer is not linear in ȳ
FIRST = "first order"  # linear, and another map than Jᵀ
WAYS = "ways"  # right when asked plainly, otherwise not
ELSEWHERE = "elsewhere"  # right here, wrong in another setting
LAYERS = (FORM, PURITY, COTANGENT, FIRST, WAYS, ELSEWHERE)

Bools = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class Match:
    """What a card says of the evidence; the engine makes a finding of it.

    ``repaired`` holds, for each panel of the look that was matched, what x̄ would have
    been with the mistake mended; a repair is offered only if that agrees with the oracle
    everywhere. ``agreed`` names what agreed. ``old``/``new`` are for the expression that
    ``backward`` returns: ``new`` may contain ``{old}``.
    """

    headline: str
    evidence: tuple[str, ...] = ()
    note: str = ""
    help: str = ""
    repaired: tuple[Matrix, ...] | None = None
    agreed: str = "the repaired gradient"
    new: str = ""
    swap: tuple[str, str] | None = None  # inputs whose returned expressions to exchange
    label: str = ""  # what to say at the expression that is returned
    paths: tuple[str, ...] = ()  # input leaves whose wrong entries this explains
    severity: Severity | None = None  # where it differs from the card's
    quiets: bool = False  # it keeps later layers quiet though it is no error
    alone: bool = False  # an error that keeps no later layer quiet
    amplify: float = 1.0  # by how much the repair magnifies the rule's own rounding
    worst: Worst | None = None  # where it is not an entry of the first-order gradient
    failure: Failure | None = None  # what raised, to point at its line
    facts: tuple[str, ...] = ()  # static facts of the source that belong to it


def _nothing(look: Look) -> tuple[Request, ...]:
    return ()


@dataclass(frozen=True)
class Card:
    """One mistake.

    ``specificity``: the higher is asked first; the first that explains everything wrong
    in its scope is the name that is given.
    """

    slug: str
    severity: Severity
    specificity: int
    match: Callable[[Look], Match | None]
    wants: Callable[[Look], tuple[Request, ...]] = _nothing
    layers: tuple[str, ...] = (FIRST,)
    echoes: tuple[str, ...] = ()  # slugs that this mistake brings about by itself


@cache
def cards() -> tuple[Card, ...]:
    """Every card of the folder, the most specific first.

    A module may hold a second card of its slug, for signs that are less specific.
    """
    found = []
    folder = importlib.import_module("gradproof.diagnosis.cards")
    for info in pkgutil.iter_modules(folder.__path__):
        module = importlib.import_module(f"{folder.__name__}.{info.name}")
        mine = [c for c in vars(module).values() if isinstance(c, Card)]
        for one in mine:
            if one.slug.replace("-", "_") != info.name:
                raise ImportError(f"card {one.slug!r} stands in {info.name}.py")
        found.extend(mine)
    return tuple(sorted(found, key=lambda c: (-c.specificity, c.slug)))


def card(slug: str) -> Card:
    """The card of that slug; the more specific one where there are two.

    Raises:
        KeyError: there is none.
    """
    return {c.slug: c for c in reversed(cards())}[slug]
