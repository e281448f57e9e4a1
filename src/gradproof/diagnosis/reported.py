"""Mistakes that a check has already named: ways of asking, and side effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gradproof.diagnosis.card import Match
from gradproof.diagnosis.finding import place
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.words import joined, plural
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
        weight = min((a.severity for a in ways), key=_WEIGHT.__getitem__, default=None)
        return Match(
            headline.format(
                name=look.name,
                short=f"`{look.short}`",
                ways=_listed([a.way for a in ways]) or "asked another way",
                subjects=_listed([f.subject for f in effects]) or "a tensor",
            ),
            tuple(dict.fromkeys((*map(_way, ways), *map(_effect, effects)))),
            note=how.note,
            help=how.help,
            new=how.new,
            facts=how.facts,
            severity=None if effects else weight,  # an effect weighs as its card does
            worst=_worst(look, ways),
        )

    return match


def _listed(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    if len(unique) > _NAMED:
        return joined([*unique[:_NAMED], f"{len(unique) - _NAMED} more"])
    return joined(unique)


def _way(asked: Asked) -> str:
    if asked.failure is not None:
        first = asked.failure.message.strip().splitlines()
        return f"{asked.way}: {asked.failure.kind}: {first[0] if first else ''}".rstrip(
            ": "
        )
    entries = plural(asked.count, "entry")
    verb = "differs" if asked.count == 1 else "differ"
    return f"{asked.way}: {entries} of x̄ {verb} from the plain answer"


def _effect(effect: Effect) -> str:
    return f"{effect.subject}: {effect.detail}"


def _worst(look: Look, ways: list[Asked]) -> Worst | None:
    """The largest disagreement; the plain answer to the same numbers is the truth."""
    told = [a for a in ways if a.worst is not None]
    if not told:
        return None
    asked = max(
        told, key=lambda a: abs(a.got - a.expected) if a.got == a.got else 1e300
    )
    assert asked.worst is not None
    domain = look.evidence.domain
    if not 0 <= asked.worst < domain.size:
        return None
    return Worst(
        place(look.evidence, asked.worst), f"asked with {asked.way}", asked.got,
        asked.expected, asked.slack, "the same question asked plainly",
        asked.count, domain.size,
    )  # fmt: skip
