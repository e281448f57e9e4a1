"""Descriptions put in the order of a signature; sizes and dtypes from the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gradproof.commands import words
from gradproof.errors import UsageError
from gradproof.samples import (
    Described,
    Extent,
    arg,
    guess,
    listed,
    nearest,
    quoted,
    with_dtype,
)


def bind(
    described: Sequence[Described],
    signature: inspect.Signature | None,
    name: str,
    *,
    by_position: bool,
    source: str = "",
    runs: Callable[[Sequence[Described]], bool] = lambda _: False,
) -> tuple[Described, ...]:
    """``described`` in the order in which ``signature`` takes them.

    Names that are arguments decide; where none is, the order does. ``by_position``: the
    callee takes no keywords (an ``apply``), so that all are passed by position. Raises
    UsageError for names that are no argument, and for arguments left out: it offers what
    ``runs``.
    """
    if signature is None:
        return tuple(described)
    parameters = signature.parameters
    loose = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    matched = [d for d in described if d.name in parameters]
    strange = [d for d in described if d.name and d.name not in parameters]
    if loose:
        strange = [d for d in strange if not d.keyword]
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    if strange and (matched or any(d.keyword for d in strange)) and not several:
        near = nearest(strange[0].name, tuple(parameters))
        raise UsageError(
            words.NO_ARGUMENT.format(
                name=name, got=strange[0].name, hint=words.meant(near),
                takes=taken(signature),
            )
        )  # fmt: skip
    if several or (strange and not loose) or not matched:
        bound = tuple(described)
        absent = _unfilled(described, signature, name, several=several)
        by_position = by_position and not several
    else:
        bound, absent = _by_name(described, signature, by_position=by_position)
    if not absent:
        return _completed(bound, signature) if by_position else bound

    def fits(whole: Sequence[Described]) -> bool:
        try:
            return runs(bind(whole, signature, name, by_position=by_position))
        except UsageError:
            return False

    raise UsageError(_missing(absent, described, signature, name, source, fits))


def _completed(
    described: tuple[Described, ...], signature: inspect.Signature
) -> tuple[Described, ...]:
    """With the defaults of the arguments that follow, so that each has its place."""
    rest = _positional(signature)[sum(not d.keyword for d in described) :]
    return (*described, *(arg.named(p.default, p.name) for p in rest))


def _unfilled(
    described: Sequence[Described],
    signature: inspect.Signature,
    name: str,
    *,
    several: bool,
) -> list[str]:
    """The arguments that ``described``, taken in order, leaves empty."""
    places = _positional(signature)
    given = [d for d in described if not d.keyword]
    if several:
        return []
    if len(given) > len(places):
        raise UsageError(
            words.TOO_MANY.format(count=len(given), name=name, takes=taken(signature))
        )
    return [p.name for p in places[len(given) :] if p.default is p.empty]


def _by_name(
    described: Sequence[Described], signature: inspect.Signature, *, by_position: bool
) -> tuple[tuple[Described, ...], list[str]]:
    """``described`` in the order of the arguments, and the arguments left empty."""
    by_name = {d.name: d for d in described if d.name}
    out: list[Described] = []
    skipped: list[inspect.Parameter] = []
    rest = [d for d in described if d.name not in signature.parameters]
    absent: list[str] = []
    for p in signature.parameters.values():
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            continue
        d = by_name.get(p.name)
        if d is None:
            if p.default is p.empty:
                absent.append(p.name)
            skipped.append(p)
            continue
        if p.kind is p.KEYWORD_ONLY or (d.keyword and not by_position):
            out.append(d.named(p.name, keyword=True))
            continue
        for earlier in skipped:
            if earlier.default is not earlier.empty:
                out.append(arg.named(earlier.default, earlier.name))
        skipped = []
        out.append(d.named(p.name))
    return (*out, *rest), absent


def _positional(signature: inspect.Signature) -> list[inspect.Parameter]:
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return [p for p in signature.parameters.values() if p.kind in kinds]


def _missing(
    names: Sequence[str],
    described: Sequence[Described],
    signature: inspect.Signature,
    name: str,
    source: str,
    fits: Callable[[Sequence[Described]], bool],
) -> str:
    said = {"missing": listed(names), "name": name, "takes": taken(signature)}
    places = [p.name for p in _positional(signature)]
    described = [
        d if d.name or place >= len(places) else d.named(places[place])
        for place, d in enumerate(described)
    ]
    for guessed in guess(signature, source=source):
        likely = {d.name: d for d in _sized_as(described, guessed)}
        whole = [*described, *(likely[n] for n in names if n in likely)]
        if len(whole) == len(described) + len(names) and fits(whole):
            return words.MISSING.format(**said, example=quoted(whole))
    return words.MISSING_BLANK.format(**said, blank=words.blank(names))


def _sized_as(
    described: Sequence[Described], guessed: Sequence[Described]
) -> Iterator[Described]:
    """``guessed`` in the dtype and with the extents that ``described`` has."""
    dtypes = {d.dtype for d in described if "float" in d.dtype}
    if len(dtypes) == 1:
        guessed = with_dtype(guessed, dtypes.pop())
    places = {d.name: d for d in guessed}
    known: dict[str, Extent] = {}
    for place, d in enumerate(described):
        twin = places.get(d.name, guessed[place] if place < len(guessed) else None)
        if twin is not None and len(twin.shape) == len(d.shape):
            known.update(zip(map(str, twin.shape), d.shape, strict=True))
    for d in guessed:
        shape = tuple(known.get(str(extent), extent) for extent in d.shape)
        high = known.get(d.high, d.high) if isinstance(d.high, str) else d.high
        try:
            yield replace(d, shape=shape, high=high)
        except UsageError:  # a pattern that does not fit this shape
            yield d


def taken(signature: inspect.Signature) -> str:
    """The arguments as a reader of the signature would list them."""
    parts = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in signature.parameters.values()
    ]
    return ", ".join(parts) or "no arguments"


def known_sizes(sizes: Mapping[str, int], described: Iterable[Described]) -> None:
    """Raises UsageError for a size that no input has."""
    symbols = tuple(dict.fromkeys(s for d in described for s in d.symbols))
    for symbol in sizes:
        if symbol not in symbols:
            there = words.SIZES.format(names=", ".join(symbols)) if symbols else ""
            raise UsageError(
                words.NO_SIZE.format(
                    symbol=symbol,
                    hint=words.meant(nearest(symbol, symbols)),
                    sizes=there or words.NO_SIZES,
                )
            )
