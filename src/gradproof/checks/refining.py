"""A mismatch that shrinks as the forward is made more exact is no wrong gradient.

The rule of a solver is that of its solution, or of the equation that it discretises; the
forward is that of the iterations taken. What lies between shrinks with the tolerance or
the step; a mistake stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

import numpy as np

from gradproof.checks.gradient import Compared, off
from gradproof.space import Vector
from gradproof.verdict import Code, Elsewhere, Undecided, Verdict

FAST = 0.3  # each setting leaves at most this share of the mismatch of the one before
SMALL = 1e-2  # and the last one at most this share of the largest entry
STILL = 0.6  # a mismatch that keeps more than this share does not shrink
GONE = 0.15  # of the last mismatch: what a limit that is 0 may be off by
STAYS = 0.5  # of the last mismatch: a limit above it is a mistake
POWERS = np.concatenate([np.linspace(-6, -0.1, 119), np.linspace(0.1, 6, 119)])

OFF = "off by {size:.1e} of the largest entry"
UNCLEAR = (
    "the mismatch goes from {first:.1e} to {last:.1e} of the largest entry over refine=, "
    "and it cannot be told whether it would vanish"
)
MORE = "one more setting at the tight end of refine="
STAYED = "over refine= the mismatch stays: {sizes}"
TIGHTEST = "the limits are those at {label}, the tightest setting of refine="
AT_TIGHTEST = "compared at {label}: at the setting given the forward is too noisy"


class Trend(Enum):
    """What a mismatch does as the setting is tightened."""

    NONE = "none"  # no setting disagrees
    SHRINKS = "shrinks"
    UNCLEAR = "unclear"
    STAYS = "stays"


@dataclass(frozen=True, eq=False)
class Setting:
    """One setting: what it is called, its number if it is one, what was found there."""

    label: str
    number: float | None
    found: Compared


@dataclass(frozen=True, eq=False)
class Weighed:
    """The comparison that stands, and what is said beside it."""

    found: Compared
    elsewhere: tuple[Elsewhere, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    notes: tuple[str, ...] = ()
    inexact: bool = False  # a mismatch that shrinks is what limits what could be seen


def weigh(found: Compared, settings: list[Setting]) -> Weighed:
    """Judge the mismatch of ``found`` by what became of it at the ``settings``."""
    errors = [_errors(s.found) for s in settings]
    told = [OFF.format(size=e.size) for e in errors]
    trend = _trend(settings, errors, found)
    if trend is Trend.NONE:
        passing = [
            Elsewhere(s.label, "refine", Verdict.PASS, note=text)
            for s, text in zip(settings, told, strict=True)
        ]
        return Weighed(found, tuple(passing))
    if trend is Trend.STAYS:
        sizes = ", ".join(
            f"{e.size:.1e} at {s.label}" for s, e in zip(settings, errors, strict=True)
        )
        shown = found if found.wrong else settings[-1].found
        return Weighed(shown, notes=(STAYED.format(sizes=sizes),))
    if trend is Trend.UNCLEAR:
        detail = UNCLEAR.format(first=errors[0].size, last=errors[-1].size)
        open_ = Undecided("inexact", "the whole gradient", detail, MORE)
        return Weighed(excused(found), undecided=(open_,))
    elsewhere = tuple(
        Elsewhere(
            s.label,
            "refine",
            Verdict.FAIL if s.found.wrong else Verdict.PASS,
            note=text,
        )
        for s, text in zip(settings, told, strict=True)
    )
    tight = settings[-1]
    note = TIGHTEST.format(label=tight.label)
    return Weighed(excused(tight.found), elsewhere, notes=(note,), inexact=True)


@dataclass(frozen=True, eq=False)
class _Errors:
    """Rule minus oracle, with what it may be off by; NaN where there is no answer."""

    error: Vector
    slack: Vector
    top: float

    @property
    def size(self) -> float:
        """The largest, as a share of the largest entry."""
        known = np.abs(self.error[np.isfinite(self.error)])
        return float(known.max(initial=0.0)) / self.top


def _errors(found: Compared) -> _Errors:
    b = found.block
    if b is not None and b.whole and not found.directions:
        known = (b.code == Code.OK) & np.isfinite(b.value)
        error = np.where(known, b.implied - b.value, np.nan).reshape(-1)
        top = float(np.abs(b.value[known]).max(initial=0.0))
        return _Errors(error, (b.bound + b.own).reshape(-1), top or 1.0)
    known = np.array([d.code == Code.OK for d in found.directions], dtype=bool)
    gap = np.array([d.got - d.expected for d in found.directions])
    slack = np.array([d.bound for d in found.directions])
    top = max((d.scale for d in found.directions if d.scale > 0), default=1.0)
    return _Errors(np.where(known, gap, np.nan), slack, top)


def _trend(settings: list[Setting], errors: list[_Errors], found: Compared) -> Trend:
    if not found.wrong and not any(s.found.wrong for s in settings):
        return Trend.NONE
    if len({len(e.error) for e in errors}) > 1:
        return Trend.UNCLEAR
    first, last = errors[0], errors[-1]
    if not settings[-1].found.wrong:
        # What was wrong must have been visible at the end.
        was = np.abs(np.where(np.isfinite(first.error), first.error, 0.0))
        worst = int(np.argmax(was))
        seen = np.isfinite(last.error[worst]) and last.slack[worst] < 0.5 * was[worst]
        return Trend.SHRINKS if seen else Trend.UNCLEAR
    sizes = [e.size for e in errors]
    if sizes[-1] > STILL * sizes[0]:
        return Trend.STAYS
    steps = [b / a if a > 0 else 1.0 for a, b in pairwise(sizes)]
    if len(sizes) > 2 and max(steps) <= FAST and sizes[-1] <= SMALL:
        return Trend.SHRINKS
    if len(sizes) < 3:
        return Trend.SHRINKS if sizes[-1] <= 0.1 * sizes[0] else Trend.UNCLEAR
    limit = _limit(settings, errors)
    if limit <= GONE * sizes[-1]:
        return Trend.SHRINKS
    return Trend.STAYS if limit >= STAYS * sizes[-1] else Trend.UNCLEAR


def _limit(settings: list[Setting], errors: list[_Errors]) -> float:
    """What the mismatch tends to: of c·vᵖ + limit through the last three settings.

    v is the setting's number where it has one, else settings are taken as geometric.
    """
    three = [np.where(np.isfinite(e.error), e.error, 0.0) for e in errors[-3:]]
    numbers = [s.number for s in settings[-3:]]
    if any(v is None or v <= 0 for v in numbers):
        numbers = [1.0, 2.0, 4.0]
    v = np.array(numbers, dtype=np.float64)
    one, two = three[1] - three[0], three[2] - three[1]
    size = float(one @ one)
    if size == 0:
        return errors[-1].size
    ratio = float(one @ two) / size
    v = v / v[0]
    with np.errstate(all="ignore"):
        a, b, c = (v[k] ** POWERS for k in range(3))
        fits = (c - b) / (b - a)
        best = int(np.nanargmin(np.abs(fits - ratio)))
    p = POWERS[best]
    shape = v**p
    if shape[2] == shape[1]:
        return errors[-1].size
    rest = three[2] - two * shape[2] / (shape[2] - shape[1])
    return float(np.abs(rest).max(initial=0.0)) / errors[-1].top


def excused(found: Compared) -> Compared:
    """``found`` with its own mismatch counted as the rule's inexactness."""
    b = found.block
    if b is not None:
        b = replace(b, own=_wider(b.own, b.wrong, b.implied - b.value))
    probes = tuple(
        replace(p, own=_wider(p.own, p.wrong, p.got - p.expected.value))
        for p in found.probes
    )
    directions = tuple(
        replace(d, bound=1.001 * abs(d.got - d.expected)) if off(d) else d
        for d in found.directions
    )
    return replace(found, block=b, probes=probes, directions=directions)


def _wider(own: np.ndarray, wrong: np.ndarray, gap: np.ndarray) -> np.ndarray:
    return np.where(wrong, np.fmax(own, 1.001 * np.abs(gap)), own)


def tightest(settings: list[Setting]) -> tuple[Compared, str]:
    """The comparison at the tight end, with the sentence that says so."""
    last = settings[-1]
    return last.found, AT_TIGHTEST.format(label=last.label)
