"""Guesses of inputs, tried until one fits.

It fits where the forward runs, its result is not vacuous, and the backward takes it. A
guess must never accuse: where backward raises, or returns another shape, for guessed
inputs, those inputs may not be what the author meant. Further guesses are tried then; if
one fits, or if none does, the answer is UNDECIDED and says for which inputs what happens.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeAlias

from gradproof.commands import words
from gradproof.commands.inputs import example, listed, with_dtype
from gradproof.errors import GradproofError, UsageError, UserCodeError
from gradproof.samples import (
    Described,
    Drawn,
    draw,
    guess,
    quoted,
    shown,
    unfamiliar,
)
from gradproof.verdict import Verdict

Ask: TypeAlias = Callable[[tuple[Described, ...], list[Drawn]], Any]

_RUNS = 6  # guesses at which the forward runs, before the search is given up
_ENOUGH = 3  # shapes that a backward of one argument must refuse to be at fault itself
_NARROW = 12  # guesses that are tried again in float32, for what runs only there
_OWN_FAULT = frozenset(
    {"NameError", "AttributeError", "UnboundLocalError", "ImportError",
     "ModuleNotFoundError", "NotImplementedError"}
)  # fmt: skip
_VACUOUS = frozenset({"vacuous", "domain"})


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of the guesses: the report, its inputs, and a doubt that remains."""

    report: Any
    described: tuple[Described, ...]
    drawn: list[Drawn]
    doubt: str = ""


@dataclass(frozen=True, eq=False)
class _Misfit:
    """Why a report at guessed inputs says more of the guess than of the rule."""

    tried: Tried
    trouble: str  # "" where nothing was seen at all
    accuses: bool


def attempt(
    signature: inspect.Signature,
    ask: Ask,
    *,
    name: str,
    source: str,
    sizes: Mapping[str, int],
    seed: int,
    dtype: str,
) -> Tried:
    """The first guess that fits, asked.

    Raises UsageError when no guess makes the forward run: the sentence names what could
    not be filled and shows what to write.
    """
    candidates = [with_dtype(c, dtype) for c in guess(signature, source=source)]
    narrow = [] if dtype else [with_dtype(c, "float32") for c in candidates]
    misfits: list[_Misfit] = []
    errors: list[GradproofError] = []
    for described in chain(candidates, islice(narrow, _NARROW)):
        if narrow and described is narrow[0] and misfits:
            break
        try:
            drawn = draw(described, sizes, seed)
            tried = Tried(ask(described, drawn), described, drawn)
        except GradproofError as error:
            errors.append(error)
            continue
        misfit = _misfit(tried)
        if misfit is None:
            return _settled(tried, misfits, name, sizes)
        misfits.append(misfit)
        if len(misfits) == _RUNS:
            break
    if misfits:
        return _unsettled(misfits, name, sizes)
    raise _refusal(signature, source, name, errors)


def _misfit(tried: Tried) -> _Misfit | None:
    record = tried.report.record
    if record.verdict is Verdict.UNDECIDED:
        reasons = {block.reason for block in record.undecided}
        return _Misfit(tried, "", accuses=False) if reasons & _VACUOUS else None
    if record.verdict is Verdict.PASS or record.evidence is None:
        return None
    failure = record.evidence.failure
    returned = [r for r in record.evidence.form.returned if not r.is_none]
    off = [r for r in returned if r.shape != r.expected_shape]
    smaller = all(math.prod(r.shape) < math.prod(r.expected_shape) for r in off)
    if failure is not None and failure.kind not in _OWN_FAULT:
        said = failure.message.strip().split("\n")[0]
        trouble = words.RAISES.format(kind=failure.kind, said=said)
        return _Misfit(tried, trouble, accuses=not (off and smaller))
    if off:
        return _Misfit(tried, words.MISSHAPED, accuses=not smaller)
    return None


def _settled(
    tried: Tried, misfits: list[_Misfit], name: str, sizes: Mapping[str, int]
) -> Tried:
    """A guess that fits. A PASS is in doubt where an earlier guess accused the rule."""
    accusing = [misfit for misfit in misfits if misfit.accuses]
    if not accusing or tried.report.verdict is Verdict.FAIL:
        return tried
    bad = accusing[0]
    doubt = words.GUESS_UNSURE.format(
        name=name,
        trouble=bad.trouble,
        bad=shown(bad.tried.described, sizes),
        good=shown(tried.described, sizes),
        first=quoted(bad.tried.described),
        other=quoted(tried.described),
    )
    return Tried(tried.report, tried.described, tried.drawn, doubt)


def _unsettled(misfits: list[_Misfit], name: str, sizes: Mapping[str, int]) -> Tried:
    """No guess fits: the first one's report, in doubt where it accuses the rule.

    With one tensor among the arguments there is nothing to misfit: a backward that takes
    it in no shape is at fault itself.
    """
    troubled = [misfit for misfit in misfits if misfit.trouble]
    if not troubled:
        return misfits[0].tried
    first = troubled[0].tried
    lone = sum(d.is_tensor for d in first.described) == 1
    if lone and len(troubled) == len(misfits) >= _ENOUGH:
        return first
    doubt = words.GUESS_FAILS.format(
        name=name,
        trouble=troubled[0].trouble,
        bad=shown(first.described, sizes),
        first=quoted(first.described),
    )
    return Tried(first.report, first.described, first.drawn, doubt)


def _refusal(
    signature: inspect.Signature,
    source: str,
    name: str,
    errors: list[GradproofError],
) -> GradproofError:
    """The sentence for a signature that no guess could fill."""
    said = {str(error) for error in errors}
    if len(said) == 1 and not isinstance(errors[0], UserCodeError):
        return errors[0]  # it is not the inputs that are at fault
    shown = quoted(example(signature, source))
    strange = unfamiliar(signature, source=source)
    if not errors or strange:
        what = listed(strange) or "its arguments"
        return UsageError(words.CANNOT_FILL.format(name=name, what=what, example=shown))
    first = str(errors[0]).strip().split("\n")[0]
    return UsageError(
        words.NO_GUESS.format(name=name, count=len(errors), said=first, example=shown)
    )
