"""The form of what ``backward`` itself returned, before the engine mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradproof.diagnosis.broadcasting import broadcasts
from gradproof.diagnosis.card import Match
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.raised import quoted, slug_of
from gradproof.verdict import Returned, Severity


def form_of(
    slug: str, noun: str, help_: str, note: str, facts: tuple[str, ...] = ()
) -> Callable[[Look], Match | None]:
    """A card's ``match`` for gradients of another shape, dtype or device."""

    def match(look: Look) -> Match | None:
        e = look.evidence
        off = list(_off(look, noun))
        raised = e.failure is not None and slug_of(e.failure) == slug
        if not off and not raised:
            return None
        evidence = tuple(
            f"{r.path}: returned {_part(r, noun)}, the input is {_part(r, noun, due=True)}"
            for r in off
        )
        if raised and e.failure is not None:
            evidence += (quoted(e.failure),)
        paths = " and ".join(r.path for r in off) or "an input"
        return Match(
            f"{look.name} returns a gradient of another {noun} than {paths}",
            evidence,
            note=note,
            paths=tuple(r.path for r in off),
            facts=facts,
            help=help_,
            # The engine has mended it, or there would be no gradient to judge.
            severity=Severity.ERROR if raised else Severity.WARNING,
        )

    return match


def _off(look: Look, noun: str) -> Iterator[Returned]:
    for r in look.evidence.form.returned:
        if r.is_none or not r.needed:
            continue
        got, due = _part(r, noun), _part(r, noun, due=True)
        if due in ("", "()") or got == due or got == "":
            continue
        if noun == "shape" and broadcasts(r):
            continue
        yield r


def _part(r: Returned, noun: str, *, due: bool = False) -> str:
    if noun == "shape":
        return str(r.expected_shape if due else r.shape)
    if noun == "dtype":
        return r.expected_dtype if due else r.dtype
    return r.expected_device if due else r.device
