"""Right here, wrong in another setting: what the nested evidence says."""

from __future__ import annotations

from dataclasses import replace

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.constants import is_factor
from gradproof.diagnosis.finding import worst
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.raised import quoted
from gradproof.diagnosis.words import number
from gradproof.verdict import Elsewhere, Evidence, Verdict, Worst


def failing(look: Look, *kinds: str) -> list[Elsewhere]:
    """Settings of these kinds in which the rule is wrong, where it is right here.

    A rule that is wrong at home is wrong elsewhere by the same mistake.
    """
    if look.evidence.wrong:
        return []
    return [
        e
        for e in look.evidence.elsewhere
        if e.kind in kinds and e.verdict is Verdict.FAIL
    ]


def told(settings: list[Elsewhere]) -> tuple[str, ...]:
    """One sentence for each setting."""
    out = []
    for s in settings:
        if s.failure is not None:
            out.append(f"{s.setting}: {quoted(s.failure)}")
            continue
        found = numbers(s)
        times = _times(s.evidence)
        if found is not None and found.total and (s is not settings[0] or times):
            what = f"{found.wrong} of {found.total} entries are wrong"
            out.append(f"{s.setting}: {times or what}")
        elif found is None or not found.total:
            out.append(f"{s.setting}: wrong" + (f" ({s.note})" if s.note else ""))
    return tuple(out)


def numbers(setting: Elsewhere) -> Worst | None:
    """The worst entry in another setting, named as what it is there."""
    found = None if setting.evidence is None else worst(Look.at(setting.evidence))
    if found is None:
        return None
    place = found.place
    if setting.kind == "order":
        place = place.replace("grad of ", "second order by ")
    elif setting.kind in ("dtype", "shape"):
        place = f"{place} in {setting.setting}"
    return replace(found, place=place)


def _times(evidence: Evidence | None) -> str:
    """What all wrong entries are off by, where that is one factor."""
    if evidence is None:
        return ""
    panels = Look.at(evidence).panels
    found = ratio(panels, [p.bad for p in panels])
    if found is None or found.count < 2 or not is_factor(found):
        return ""
    return f"got / expected = {number(found.mid)} in every wrong entry"
