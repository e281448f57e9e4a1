"""Descriptions put in the order of a signature; sizes and dtypes from the command line."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gradproof.commands import words
from gradproof.errors import UsageError
from gradproof.samples import Described, arg, guess, nearest, quoted

_COMPLEX = {"float64": "complex128", "float32": "complex64"}
_REAL = ("float64", "float32", "float16", "bfloat16")


def bind(
    described: Sequence[Described],
    signature: inspect.Signature | None,
    name: str,
    *,
    by_position: bool,
    source: str = "",
) -> tuple[Described, ...]:
    """``described`` in the order in which ``signature`` takes them.

    Names that are arguments decide; where none is, the order does. ``by_position``: the
    callee takes no keywords (an ``apply``), so that all are passed by position. Raises
    UsageError for names that are no argument, and for arguments left out.
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
        ordered = _by_order(described, signature, name, several=several, source=source)
        return (
            _completed(ordered, signature) if by_position and not several else ordered
        )
    bound = _by_name(described, signature, name, by_position=by_position, source=source)
    return _completed(bound, signature) if by_position else bound


def _completed(
    described: tuple[Described, ...], signature: inspect.Signature
) -> tuple[Described, ...]:
    """With the defaults of the arguments that follow, so that each has its place."""
    rest = _positional(signature)[sum(not d.keyword for d in described) :]
    return (*described, *(arg.named(p.default, p.name) for p in rest))


def _by_order(
    described: Sequence[Described],
    signature: inspect.Signature,
    name: str,
    *,
    several: bool,
    source: str,
) -> tuple[Described, ...]:
    places = _positional(signature)
    given = [d for d in described if not d.keyword]
    if len(given) > len(places) and not several:
        raise UsageError(
            words.TOO_MANY.format(count=len(given), name=name, takes=taken(signature))
        )
    left = [p.name for p in places[len(given) :] if p.default is p.empty]
    if left and not several:
        raise UsageError(_missing(left, described, signature, name, source))
    return tuple(described)


def _by_name(
    described: Sequence[Described],
    signature: inspect.Signature,
    name: str,
    *,
    by_position: bool,
    source: str,
) -> tuple[Described, ...]:
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
    if absent:
        raise UsageError(_missing(absent, described, signature, name, source))
    return (*out, *rest)


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
) -> str:
    likely = {d.name: d for d in example(signature, source)}
    whole = [*described, *(likely[n] for n in names if n in likely)]
    return words.MISSING.format(
        missing=listed(names), name=name, takes=taken(signature), example=quoted(whole)
    )


def example(signature: inspect.Signature, source: str = "") -> tuple[Described, ...]:
    """A description of every argument that has no default, for a sentence to show."""
    first = next(guess(signature, source=source), None)
    if first is not None:
        return first
    unknown = [p for p in _positional(signature) if p.default is p.empty]
    return tuple(arg.named(arg.randn("B", "D"), p.name) for p in unknown)


def taken(signature: inspect.Signature) -> str:
    """The arguments as a reader of the signature would list them."""
    parts = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in signature.parameters.values()
    ]
    return ", ".join(parts) or "no arguments"


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]


def with_dtype(described: Iterable[Described], dtype: str) -> tuple[Described, ...]:
    """Floating-point inputs in another dtype; complex ones in the one that goes with it."""
    out = []
    for d in described:
        if dtype and d.dtype in _REAL:
            d = replace(d, dtype=dtype)
        elif dtype in _COMPLEX and d.dtype in _COMPLEX.values():
            d = replace(d, dtype=_COMPLEX[dtype])
        out.append(d)
    return tuple(out)


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
