"""Guesses of inputs, tried until one fits.

It fits where the forward runs, its result is not vacuous, and the backward takes it. A
guess must never accuse: where backward raises, or returns another shape, for guessed
inputs, those inputs may not be what the author meant. Further guesses are tried then; if
one fits, or if none does, the answer is UNDECIDED and says for which inputs what happens.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from gradproof.commands import words
from gradproof.commands.inputs import listed, with_dtype
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

Inputs: TypeAlias = tuple[Described, ...]

_RUNS = 6  # guesses that are proved before the search is given up
_ENOUGH = 3  # shapes that a backward must refuse to be at fault itself
_NARROW = 12  # guesses that are tried again in other dtypes, for what runs only there
_OTHERS = ("float32", "bfloat16", "float16")
_OWN_FAULT = frozenset(
    {"NameError", "AttributeError", "UnboundLocalError", "ImportError",
     "ModuleNotFoundError", "NotImplementedError"}
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Asking:
    """How one target is asked.

    ``look`` runs its forward, and says whether the result tells anything: it is finite,
    and not 0 everywhere. ``ask`` proves it.
    """

    look: Callable[[list[Drawn]], bool]
    ask: Callable[[Inputs, list[Drawn]], Any]
    signature: inspect.Signature
    name: str
    source: str
    sizes: Mapping[str, int]
    seed: int
    dtype: str = ""
    extents: tuple[int, ...] = ()  # of the parameters that the target holds


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of the guesses: the report, its inputs, and a doubt that remains."""

    report: Any
    described: Inputs
    drawn: list[Drawn]
    doubt: str = ""


@dataclass(frozen=True, eq=False)
class _Misfit:
    """Why a report at guessed inputs says more of the guess than of the rule."""

    tried: Tried
    trouble: str
    accuses: bool


@dataclass(eq=False)
class _Search:
    """What was met so far."""

    misfits: list[_Misfit] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    refused: GradproofError | None = None  # the first error
    empty: tuple[Inputs, list[Drawn]] | None = None  # first guess whose result is empty


def attempt(asking: Asking) -> Tried:
    """The first guess that fits, asked.

    Raises UsageError when no guess makes the forward run: the sentence names what could
    not be filled and shows what to write.
    """
    search = _Search()
    queue = _candidates(asking, search)
    hinted: Inputs | None = None
    while len(search.misfits) < _RUNS:
        fresh = hinted is None
        described = next(queue, None) if fresh else hinted
        hinted = None
        if described is None:
            break
        tried = _try(asking, search, described)
        if tried is None:
            continue
        misfit = _misfit(tried)
        if misfit is None:
            return _settled(asking, tried, search.misfits)
        search.misfits.append(misfit)
        hinted = _as_returned(tried) if fresh else None
    if search.misfits:
        return _unsettled(asking, search.misfits)
    if search.empty is not None:
        return Tried(asking.ask(*search.empty), *search.empty)
    raise _refusal(asking, search)


def _candidates(asking: Asking, search: _Search) -> Iterator[Inputs]:
    """The guesses; where none of them runs, the first again, of other sizes or dtypes."""
    first: list[Inputs] = []
    for described in guess(asking.signature, source=asking.source):
        first += [described] if len(first) < _NARROW else []
        yield with_dtype(described, asking.dtype)
    fitted = (
        _fitted(d, n, axis) for n in asking.extents for d in first for axis in (-1, 1)
    )
    others = (with_dtype(d, dtype) for dtype in _OTHERS for d in first)
    further = [with_dtype(d, asking.dtype) for d in fitted if d is not None]
    for described in further if asking.dtype else (*further, *others):
        if search.misfits or search.empty is not None:
            return
        yield described


def _fitted(described: Inputs, extent: int, axis: int) -> Inputs | None:
    """The inputs with ``extent`` for the size of one axis of the first tensor."""
    shape = next((d.shape for d in described if d.shape), ())
    if not -len(shape) <= axis < len(shape) or axis == len(shape) - 1:
        return None
    size = shape[axis]
    return tuple(
        replace(d, shape=tuple(extent if n == size else n for n in d.shape))
        for d in described
    )


def _try(asking: Asking, search: _Search, described: Inputs) -> Tried | None:
    """The report at one guess; None where its forward does not run or tells nothing."""
    try:
        drawn = draw(described, asking.sizes, asking.seed)
        if not asking.look(drawn):
            search.empty = search.empty or (described, drawn)
            return None
        return Tried(asking.ask(described, drawn), described, drawn)
    except GradproofError as error:
        search.refused = search.refused or error
        search.errors.append(str(error))
        return None


def _misfit(tried: Tried) -> _Misfit | None:
    record = tried.report.record
    if record.verdict is not Verdict.FAIL or record.evidence is None:
        return None
    failure = record.evidence.failure
    if failure is None or failure.kind in _OWN_FAULT:
        return None
    off = _off_shape(tried)
    smaller = all(math.prod(r.shape) < math.prod(r.expected_shape) for r in off)
    said = failure.message.strip().split("\n")[0]
    trouble = words.RAISES.format(kind=failure.kind, said=said)
    return _Misfit(tried, trouble, accuses=not (off and smaller))


def _off_shape(tried: Tried) -> list[Any]:
    """Gradients that backward returned in another shape than their input's."""
    returned = tried.report.record.evidence.form.returned
    return [r for r in returned if not r.is_none and r.shape != r.expected_shape]


def _as_returned(tried: Tried) -> Inputs | None:
    """The inputs with the shapes that the gradients came in.

    An author who sums over an axis means an input that has none of it.
    """
    off = {r.path: r.shape for r in _off_shape(tried)}
    drawn = {one.name: one.array for one in tried.drawn if one.array is not None}
    out: list[Described] = []
    for d in tried.described:
        got = off.get(d.name)
        if got is not None and d.name in drawn:
            names = dict(zip(drawn[d.name].shape[::-1], d.shape[::-1], strict=True))
            d = replace(d, shape=tuple(names.get(n, n) for n in got), pattern="")
        out.append(d)
    changed = tuple(out)
    return changed if changed != tried.described else None


def _settled(asking: Asking, tried: Tried, misfits: list[_Misfit]) -> Tried:
    """A guess that fits. A PASS is in doubt where an earlier guess accused the rule."""
    accusing = [misfit for misfit in misfits if misfit.accuses]
    if not accusing or tried.report.verdict is Verdict.FAIL:
        return tried
    bad = accusing[0]
    doubt = words.GUESS_UNSURE.format(
        name=asking.name,
        trouble=bad.trouble,
        bad=shown(bad.tried.described, asking.sizes),
        good=shown(tried.described, asking.sizes),
        first=quoted(bad.tried.described),
        other=quoted(tried.described),
    )
    return replace(tried, doubt=doubt)


def _unsettled(asking: Asking, misfits: list[_Misfit]) -> Tried:
    """No guess fits: the first one's report, in doubt since it accuses the rule.

    With one tensor among the arguments there is nothing to misfit, and a gradient that
    has the shape of its input at no shape at all never will: then it is at fault itself.
    """
    first = misfits[0].tried
    lone = sum(d.is_tensor for d in first.described) == 1
    never = all(_off_shape(misfit.tried) for misfit in misfits)
    if (lone or never) and len(misfits) >= _ENOUGH:
        return first
    doubt = words.GUESS_FAILS.format(
        name=asking.name,
        trouble=misfits[0].trouble,
        bad=shown(first.described, asking.sizes),
        first=quoted(first.described),
    )
    return replace(first, doubt=doubt)


def _refusal(asking: Asking, search: _Search) -> GradproofError:
    """The sentence for a signature that no guess could fill."""
    first = search.refused
    same = len(set(search.errors)) == 1
    if first is not None and same and not isinstance(first, UserCodeError):
        return first  # it is not the inputs that are at fault
    blank = words.blank(
        p.name
        for p in asking.signature.parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    )
    strange = unfamiliar(asking.signature, source=asking.source)
    if first is None or strange:
        what = listed(strange) or "its arguments"
        return UsageError(
            words.CANNOT_FILL.format(name=asking.name, what=what, blank=blank)
        )
    said = str(first).strip().split("\n")[0]
    count = len(search.errors)
    return UsageError(
        words.NO_GUESS.format(name=asking.name, count=count, said=said, blank=blank)
    )
