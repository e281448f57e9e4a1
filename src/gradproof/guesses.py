"""Guesses of inputs, tried until one fits.

It fits where the forward runs, its result is not vacuous, and the backward takes it. A
guess must never accuse: where backward raises, or returns another shape, for guessed
inputs, those inputs may not be what the author meant. Further guesses are tried then; if
one fits, or if none does, the answer is UNDECIDED and says for which inputs what happens.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from gradproof.errors import GradproofError, UsageError, UserCodeError
from gradproof.samples import (
    Described,
    Drawn,
    draw,
    guess,
    listed,
    shown,
    unfamiliar,
    unshown,
    with_dtype,
)
from gradproof.space import Vector
from gradproof.verdict import Record, Undecided, Verdict

Inputs: TypeAlias = tuple[Described, ...]

CANNOT_FILL = (
    "no inputs were given for {name}, and {what} could not be filled by a guess; {give}"
)
NO_GUESS = (
    "no inputs were given for {name}, and none of {count} guesses fits ({said}); {give}"
)
RAISES = "raises {kind}: {said}"
UNSHOWN = "the inputs were guessed, and do not show: {what}"
DOUBT = "guess"  # the reason of an answer that waits for the inputs that are meant
WITH, BUT_NOT = "backward {trouble}, with {bad}", ", but not with {good}"
DECIDE = "say which inputs are meant: {first}"

_RUNS = 6  # guesses that are proved before the search is given up
_ENOUGH = 3  # shapes that a backward must refuse to be at fault itself
_EXTENTS = 6  # of parameters, that are tried for an axis of an input
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
    and not 0 everywhere. ``ask`` proves it. ``give`` tells how to give the arguments of
    these names.
    """

    look: Callable[[list[Drawn]], bool]
    ask: Callable[[Inputs, list[Drawn]], Any]
    signature: inspect.Signature
    name: str
    source: str
    sizes: Mapping[str, int]
    seed: int
    give: Callable[[Sequence[str]], str]
    dtype: str = ""
    extents: tuple[int, ...] = ()  # of the parameters that the target holds


@dataclass(frozen=True)
class Doubt:
    """What backward does with ``bad`` inputs, and not with ``good`` ones, if any."""

    trouble: str
    bad: Inputs
    good: Inputs = ()


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of the guesses: the report, its inputs, and a doubt that remains."""

    report: Any
    described: Inputs
    drawn: list[Drawn]
    doubt: Doubt | None = None

    def record(
        self, sizes: Mapping[str, int], write: Callable[[Inputs], str]
    ) -> Record:
        """The record of it: UNDECIDED in doubt; a PASS says what it could not show.

        ``write`` puts inputs into words that can be typed.
        """
        record: Record = self.report.record
        if self.doubt is not None:
            asked = _in_doubt(self.doubt, sizes, write)
            return replace(
                record, verdict=Verdict.UNDECIDED, findings=(), undecided=(asked,)
            )
        unseen = unshown(self.described, self.drawn)
        if not unseen or record.verdict is not Verdict.PASS:
            return record
        note = UNSHOWN.format(what=", ".join(unseen))
        return replace(record, notes=(*record.notes, note))


def _in_doubt(
    doubt: Doubt, sizes: Mapping[str, int], write: Callable[[Inputs], str]
) -> Undecided:
    detail = WITH.format(trouble=doubt.trouble, bad=shown(doubt.bad, sizes))
    decide = DECIDE.format(first=write(doubt.bad))
    if doubt.good:
        detail += BUT_NOT.format(good=shown(doubt.good, sizes))
        decide += f" or {write(doubt.good)}"
    return Undecided(DOUBT, "", detail, decide)


def tells(value: Vector | None) -> bool:
    """Whether a result tells anything: it is finite, and not 0 everywhere."""
    return value is not None and bool(np.isfinite(value).all() and value.any())


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


def fit_of(thing: Any) -> tuple[str, tuple[int, ...]]:
    """The one dtype of the parameters that ``thing`` holds, and their extents.

    The dtype is "" for none or several; extents of an input's axes come first.
    """
    held = None if isinstance(thing, type) else getattr(thing, "parameters", None)
    if not callable(held):
        return "", ()
    parameters = list(held())
    dtypes = {str(p.dtype) for p in parameters if p.is_floating_point()}
    dtype = dtypes.pop().removeprefix("torch.") if len(dtypes) == 1 else ""
    extents = dict.fromkeys(n for p in parameters for n in reversed(p.shape) if n > 1)
    return dtype, tuple(extents)[:_EXTENTS]


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
    trouble = RAISES.format(kind=failure.kind, said=said)
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
    return replace(
        tried, doubt=Doubt(bad.trouble, bad.tried.described, tried.described)
    )


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
    return replace(first, doubt=Doubt(misfits[0].trouble, first.described))


def _refusal(asking: Asking, search: _Search) -> GradproofError:
    """The sentence for a signature that no guess could fill."""
    first = search.refused
    same = len(set(search.errors)) == 1
    if first is not None and same and not isinstance(first, UserCodeError):
        return first  # it is not the inputs that are at fault
    give = asking.give(
        [
            p.name
            for p in asking.signature.parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
    )
    strange = unfamiliar(asking.signature, source=asking.source)
    if first is None or strange:
        what = listed(strange) or "its arguments"
        return UsageError(CANNOT_FILL.format(name=asking.name, what=what, give=give))
    said = str(first).strip().split("\n")[0]
    count = len(search.errors)
    return UsageError(
        NO_GUESS.format(name=asking.name, count=count, said=said, give=give)
    )
