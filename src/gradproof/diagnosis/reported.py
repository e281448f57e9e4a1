"""Mistakes that a check has already named: ways of asking, and side effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradproof.diagnosis.card import Match
from gradproof.diagnosis.finding import place
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import gradient_of, joined, number, plural
from gradproof.verdict import Asked, Effect, Severity, Worst

_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
# Ways that are named in a headline; more are counted.
_NAMED = 3


@dataclass(frozen=True)
class Told:
    """How one such mistake is told.

    ``headline`` may contain {name}, {short}, {ways} and {subjects}; ``raised`` is the headline
    where every such way raised.
    """

    headline: str
    raised: str = ""
    note: str = ""
    help: str = ""
    new: str = ""
    facts: tuple[str, ...] = ()
    of_output: bool = False  # what disagrees is an output's tangent, and no gradient
    returned: bool = False  # point at what is returned for the input that is worst


def told(slug: str, how: Told) -> Callable[[Look], Match | None]:
    """A card's ``match``: everything that was reported under its slug."""

    def match(look: Look) -> Match | None:
        e = look.evidence
        ways = [a for a in e.asked if not a.agreed and a.slug == slug]
        effects = [f for f in e.effects if f.slug == slug]
        effects += [f for a in e.asked for f in a.effects if f.slug == slug]
        if not ways and not effects:
            return None
        failed = [a for a in ways if a.failure is not None]
        headline = how.headline
        if how.raised and ways and len(failed) == len(ways):
            headline = how.raised
        worst = _worst(look, ways, of_output=how.of_output)
        paths = _paths(look, ways) if how.returned else ()
        weight = min((a.severity for a in ways), key=_WEIGHT.__getitem__, default=None)
        return Match(
            headline.format(
                name=look.name,
                short=f"`{look.short}`",
                ways=_listed([a.way for a in ways]) or "asked another way",
                subjects=_listed([f.subject for f in effects]) or "a tensor",
            ),
            tuple(
                dict.fromkeys(
                    (
                        *(_way(look, a, of_output=how.of_output) for a in ways),
                        *map(_effect, effects),
                    )
                )
            ),
            note=how.note,
            help=how.help,
            new=how.new,
            facts=how.facts,
            failure=failed[0].failure if failed else None,
            paths=paths,
            severity=None if effects else weight,  # an effect weighs as its card does
            worst=worst,
        )

    return match


def _listed(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    if len(unique) > _NAMED:
        return joined([*unique[:_NAMED], f"{len(unique) - _NAMED} more"])
    return joined(unique)


def _way(look: Look, asked: Asked, *, of_output: bool) -> str:
    if asked.failure is not None:
        first = asked.failure.message.strip().splitlines()
        return f"{asked.way}: {asked.failure.kind}: {first[0] if first else ''}".rstrip(
            ": "
        )
    entries = plural(asked.count, "entry")
    verb = "is" if asked.count == 1 else "are"
    if of_output:
        return f"{asked.way}: {entries} of the tangent {verb} wrong{_times(asked)}"
    paths = _paths(look, [asked])
    of = gradient_of(paths) if paths else "the gradient"
    verb = "differs" if asked.count == 1 else "differ"
    return f"{asked.way}: {entries} of {of} {verb} from a plain call's{_times(asked)}"


def _off(asked: Asked) -> np.ndarray | None:
    """Which entries disagree, where the answer was kept."""
    if asked.answer is None or asked.truth is None:
        return None
    gap = np.abs(np.asarray(asked.answer) - np.asarray(asked.truth))
    # The slack is that of the worst entry; an entry without a number is off.
    return ~(gap <= asked.slack)


def _paths(look: Look, ways: list[Asked]) -> tuple[str, ...]:
    """The inputs whose gradients disagree."""
    domain = look.evidence.domain
    found = set()
    for asked in ways:
        off = _off(asked)
        if off is not None and off.sum() == asked.count and len(off) == domain.size:
            found |= {a.path for a in domain if off[a.slice].any()}
        elif asked.worst is not None and 0 <= asked.worst < domain.size:
            found.add(domain.leaf_of(asked.worst).path)
    return tuple(a.path for a in domain if a.path in found)


def _times(asked: Asked) -> str:
    """What all that disagrees is off by, where that is one factor."""
    off = _off(asked)
    if (
        off is None
        or not 2 <= off.sum() == asked.count
        or asked.answer is None
        or asked.truth is None
    ):
        return ""
    got, due = np.asarray(asked.answer)[off], np.asarray(asked.truth)[off]
    if not np.isfinite(got).all() or (np.abs(due) <= asked.slack).any():
        return ""
    if not got.any():
        return ", got is 0"
    ratios = got / due
    room = 4 * asked.slack / np.abs(due)
    middle = float(ratios[np.argmin(room)])
    if (np.abs(ratios - middle) > room * max(1.0, abs(middle))).any():
        return ""
    return f", got / expected = {number(round(middle, 6))}"


def _effect(effect: Effect) -> str:
    return f"{effect.subject}: {effect.detail}"


def _worst(look: Look, ways: list[Asked], *, of_output: bool) -> Worst | None:
    """The largest disagreement; the plain answer to the same numbers is the truth."""
    told = [a for a in ways if a.worst is not None]
    if not told:
        return None
    asked = max(
        told, key=lambda a: abs(a.got - a.expected) if a.got == a.got else 1e300
    )
    assert asked.worst is not None
    e = look.evidence
    space = e.codomain if of_output else e.domain
    if not 0 <= asked.worst < space.size:
        return None
    where = (
        f"tangent of {space.place(asked.worst)}" if of_output else place(e, asked.worst)
    )
    method = "measured" if of_output else "a plain call"
    return Worst(
        where, asked.way, asked.got, asked.expected, asked.slack, method,
        asked.count, space.size,
    )  # fmt: skip
