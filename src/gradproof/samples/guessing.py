"""Guesses of inputs from a signature: names, annotations, defaults, the function's text.

A guess is only a proposal; whoever asks tries them in turn until the forward runs and
its result is not vacuous.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradproof.errors import UsageError
from gradproof.samples.described import FLOATING, Described, literal
from gradproof.samples.extents import Extent, fill, parse_extent
from gradproof.samples.grammar import parse_one
from gradproof.samples.hints import Hints, read_hints
from gradproof.samples.vocabulary import (
    EITHER,
    ROLES,
    SCHEMES,
    TENSORS,
    VALUES,
    WANTED,
)

MOST = 40  # candidates; each costs its caller a run of the forward

_SHAPED = re.compile(r"\b(\w+)\[\s*[\w.| ]+,\s*(['\"])(.*?)\2\s*\]")
_ELEMENTS = (
    ("Complex", "complex128"), ("Bool", "bool"), ("UInt", "int64"), ("Int", "int64"),
    ("Float16", "float16"), ("BFloat16", "bfloat16"), ("Float32", "float32"),
    ("Key", ""), ("PRNGKey", ""),
)  # fmt: skip
_UPPER = {"W": "vector", "X": "data", "Y": "data", "Z": "data", "B": "data"}
# Schemes that say something only where a parameter of such a role is there.
_ONLY_WITH = {
    "classes": {"labels", "index"}, "gather": {"index", "table"}, "scatter": {"index"},
    "edges": {"index"}, "aligned": {"index"}, "aligned_rows": {"index"},
    "picked": {"index"}, "hits": {"labels"}, "counts": {"labels"},
    "permuted_columns": {"permutation"}, "permuted_rows": {"permutation"},
    "permuted_line": {"permutation"}, "permuted_each": {"permutation"},
    "line_hits": {"labels"}, "line_counts": {"labels"},
    "linear": {"vector", "matrix", "bias"}, "recurrent": {"vector", "matrix"},
    "state": {"vector", "matrix"}, "conv1d": {"vector"}, "conv2d": {"vector"},
    "chain": {"vector"},
}  # fmt: skip
_DISCRETE = frozenset({"labels", "index", "mask", "permutation"})
_IGNORING = "=-1"  # a label that is ignored; labels then start at it
_WITH_WEIGHTS = (
    "rows", "same", "linear", "matmul", "recurrent", "state", "filter", "chain",
)  # fmt: skip


@dataclass(frozen=True)
class _Slot:
    """One parameter and, in order of likelihood, what it may be.

    An option is a role, a description ("=f64[B]"), or "" for leaving it out.
    """

    parameter: inspect.Parameter
    options: tuple[str, ...]
    fixed: bool = False

    @property
    def name(self) -> str:
        return self.parameter.name

    def option(self, variant: int) -> str:
        return self.options[min(variant, len(self.options) - 1)]


def guess(
    signature: inspect.Signature, *, source: str = ""
) -> Iterator[tuple[Described, ...]]:
    """Candidate descriptions of the arguments, likeliest first, at most ``MOST``.

    Args:
        signature: of the forward as its caller sees it (no ``ctx``, no ``self``).
        source: text of the class or function, where it is known: read for shapes that
            it unpacks, indices, products; the guesses work without.
    """
    slots = _slots(signature, source)
    if any(not slot.options for slot in slots):
        return
    hints = read_hints(source, tuple(signature.parameters))
    variants = max((len(slot.options) for slot in slots), default=1)
    seen: set[str] = set()
    for scheme in _ordered(slots, hints):
        for variant in range(variants):
            try:
                candidate = _fill(slots, scheme, variant)
            except UsageError:  # a pattern does not fit this shape
                continue
            key = _key(candidate)
            if candidate and key not in seen:
                seen.add(key)
                yield candidate
            if len(seen) == MOST:
                return


def unfamiliar(signature: inspect.Signature, *, source: str = "") -> tuple[str, ...]:
    """Required parameters that no guess can fill, or whose names say nothing."""
    hints = read_hints(source, tuple(signature.parameters))
    return tuple(
        slot.name
        for slot in _slots(signature, source)
        if slot.parameter.default is inspect.Parameter.empty
        and (not slot.options or not _known(slot.parameter, hints))
    )


def _slots(signature: inspect.Signature, source: str) -> list[_Slot]:
    names = tuple(signature.parameters)
    hints = read_hints(source, names)
    slots: list[_Slot] = []
    for p in signature.parameters.values():
        if p.kind is p.VAR_KEYWORD:
            continue
        if p.kind is p.VAR_POSITIONAL:
            if not slots:
                slots += [_Slot(p.replace(name=n), ("data",)) for n in ("x", "y")]
            continue
        slots.append(_slot(p, hints, first=not slots))
    return slots


def _slot(p: inspect.Parameter, hints: Hints, *, first: bool) -> _Slot:
    options = _options(p, hints, first=first)
    strong = options[:1] and options[0] in ("vector", "bias", "matrix", "table")
    silent = p.name in hints.silent and not first and not strong
    if p.default is p.empty:
        return _Slot(p, options, fixed=silent)
    given = _default(p)
    if _named_role(p.name) == "ignored":
        return _Slot(p, (*options, given))
    if p.default is None and options and options[0] in (*TENSORS, "mask"):
        return _Slot(p, (options[0], given), fixed=silent)
    return _Slot(p, (given,))


def _default(p: inspect.Parameter) -> str:
    """A parameter's own default as an option; "" where it cannot be written down."""
    try:
        return "=" + str(parse_one(literal(p.default)))
    except UsageError:
        return ""


def _options(p: inspect.Parameter, hints: Hints, *, first: bool) -> tuple[str, ...]:
    annotated = _annotated(p.annotation)
    role = _role(p.name, hints)
    if annotated in ("int", "float", "bool", "str"):
        fits = {
            "int": ("count", "axis", "seed"), "bool": ("flag",), "str": ("mode",),
            "float": ("number", "prob", "eps"),
        }[annotated]  # fmt: skip
        return _values(role if role in fits else fits[0], p.name, hints)
    if annotated.startswith("="):
        return (annotated,)
    if annotated == "tensor":
        is_role = role in TENSORS or role in _DISCRETE
        return (role if is_role else "data",)
    if annotated == "other":
        return ()
    if role in VALUES:
        values = _values(role, p.name, hints)
        if p.name.lower() not in EITHER:
            return values
        return (*values, "number") if p.name in hints.silent else ("number", *values)
    plain = p.name not in hints.kind and not hints.at_least.get(p.name)
    vague = plain and (not role or len(p.name) == 1)
    if p.name in hints.silent and not first and vague:
        whole = ("=3", "=0.75") if p.name in ("k", "n", "m") else ("=0.75", "=3")
        return (*whole, "data")
    return (role or "data",)


def _values(role: str, name: str, hints: Hints) -> tuple[str, ...]:
    words = tuple(literal(word) for word in dict.fromkeys(hints.words.get(name, ())))
    plain = words if role == "mode" and words else VALUES[role]
    if role == "count":
        return ("count", *(f"={text}" for text in plain))
    return tuple(f"={text}" for text in plain)


def _role(name: str, hints: Hints) -> str:
    """The role that a name and its use suggest; "" when neither says anything."""
    named = _named_role(name)
    used = hints.kind.get(name, "")
    if "permutation" in (used, named):
        return "permutation"
    names = hints.names
    if name == "k" and "q" in names:
        return "data"
    if name == "b" and not {"x", "w", "weight", "input"} & set(names):
        return "data"
    if (
        name == "y"
        and used != "index"
        and any(_named_role(n) == "logits" for n in names)
    ):
        return "labels"
    if used and named not in ("mask", "labels", "index", "vector", "bias"):
        return used
    return named


def _named_role(name: str) -> str:
    if len(name) == 1 and name.isupper():
        return _UPPER.get(name, "matrix")
    bare = name.lower().strip("_")
    pieces = bare.split("_")
    for tried in (bare, bare.rstrip("0123456789"), pieces[-1], pieces[0]):
        if tried in ROLES:
            return ROLES[tried]
    return ""


def _known(p: inspect.Parameter, hints: Hints) -> bool:
    return bool(_role(p.name, hints) or _annotated(p.annotation))


def _annotated(annotation: Any) -> str:
    """What an annotation says: int, float, bool, str, tensor, other, "=described", ""."""
    if annotation is inspect.Parameter.empty:
        return ""
    plain = isinstance(annotation, type) and annotation.__module__ == "builtins"
    text = annotation.__name__ if plain else str(annotation)
    shaped = _SHAPED.search(text)
    if shaped is not None and (found := _jaxtyped(shaped[1], shaped[3])):
        return "=" + found
    bare = re.sub(r"\b(?:typing|torch|np|numpy|builtins|jaxtyping)\.", "", text)
    bare = re.sub(r"Optional\[(.*)\]|(.*?)\s*\|\s*None", r"\1\2", bare).strip("'\" ")
    if bare in ("int", "float", "bool", "str"):
        return bare
    if "Tensor" in bare or "ndarray" in bare or bare in ("Array", "ArrayLike"):
        return (
            "other"
            if re.search(r"\b(?:list|tuple|dict|List|Sequence)\b", bare)
            else "tensor"
        )
    if re.search(r"\bCallable\b|\bdict\b|\bDict\b|\bModule\b|\bFunction\b", bare):
        return "other"
    return ""


def _jaxtyped(element: str, dims: str) -> str:
    """The description that ``Float[Tensor, "b n"]`` stands for, or ""."""
    dtype = "float64"
    for start, full in _ELEMENTS:
        if element.startswith(start):
            dtype = full
            break
    shape: list[Extent] = []
    for i, dim in enumerate(dims.split()):
        word = dim.lstrip("#?").partition("=")[2] or dim.lstrip("#?")
        if word.startswith("*") or "..." in word:
            continue
        try:
            shape.append(parse_extent(f"axis{i}" if word == "_" else word))
        except UsageError:
            return ""
    return str(Described(dtype=dtype, shape=tuple(shape))) if dtype else ""


def _ordered(slots: Sequence[_Slot], hints: Hints) -> list[str]:
    """Names of schemes, likeliest first."""
    roles = {option for slot in slots for option in slot.options}
    tensors = [s for s in slots if s.options[0] in TENSORS or s.options[0] == "number"]
    wanted: list[str] = []
    if {"q", "k", "v"} <= {slot.name[0] for slot in slots}:
        wanted += ["attention", "attention3"]
    products = "@" in hints.calls or hints.calls & {"matmul", "mm", "linear", "addmm"}
    if products and hints.turned:
        wanted += ["linear", "recurrent", "state"]
    elif products:
        wanted += ["matmul", "recurrent", "state", "matvec"]
    for calls, schemes in WANTED:
        if calls & hints.calls:
            wanted += schemes
    weights = roles & {"vector", "bias", "matrix"} and len(tensors) > 1
    usual = [*(_WITH_WEIGHTS if weights else ()), *SCHEMES]
    if roles & {"labels"}:
        wanted = ["classes", *wanted]
    if "permutation" in roles:
        wanted = [name for name in SCHEMES if name.startswith("permuted")] + wanted
    if roles & {"index"}:
        usual = ["gather", "scatter", "edges", "aligned", "aligned_rows", "picked",
                 "classes", *usual]  # fmt: skip
    if "table" in roles:
        usual = ["gather", *usual]
    order = [
        scheme
        for scheme in dict.fromkeys([*wanted, *usual])
        if scheme not in _ONLY_WITH or _ONLY_WITH[scheme] & roles or scheme in wanted
    ]
    return sorted(order, key=lambda scheme: _misfits(slots, scheme, hints))


def _misfits(slots: Sequence[_Slot], scheme: str, hints: Hints) -> int:
    """How many shapes of a scheme contradict what the text says of a parameter."""
    try:
        filled = _fill(slots, scheme, 0)
    except UsageError:
        return len(slots)
    count = 0
    for d in filled:
        if not d.is_tensor:
            continue
        rank, final = len(d.shape), d.shape[-1] if d.shape else 1
        count += hints.rank.get(d.name, rank) != rank
        count += hints.kind.get(d.name) == "mask" and d.dtype != "bool"
        count += hints.at_least.get(d.name, 0) > rank
        last = hints.last.get(d.name)
        even = isinstance(final, str) and final.startswith("2*")
        count += last is not None and final != last and not (even and last % 2 == 0)
        least = hints.last_at_least.get(d.name, 0)
        count += least > 1 and not (isinstance(final, int) and final >= least)
    return count


def _fill(slots: Sequence[_Slot], scheme: str, variant: int) -> tuple[Described, ...]:
    """Every slot described by a scheme, except those that are left out at the end."""
    shapes = SCHEMES[scheme]
    out: list[Described] = []
    matrix = any(slot.option(variant) == "matrix" for slot in slots)
    ignored = [slot for slot in slots if _named_role(slot.name) == "ignored"]
    tensors = 0
    pending: list[_Slot] = []
    for slot in slots:
        option = slot.option(variant)
        if not option:
            pending.append(slot)
            continue
        if any(s.parameter.kind is not s.parameter.KEYWORD_ONLY for s in pending):
            raise UsageError(f"{pending[0].name} cannot be left out before {slot.name}")
        text = option[1:] if option.startswith("=") else ""
        if not text:
            text = _text(option, shapes, tensors, matrix=matrix)
            tensors += option in TENSORS or option == "number"
        if option == "labels" and any(s.option(variant) == _IGNORING for s in ignored):
            text = text.replace(" in 0..", " in -1..")
        if any(s.option(variant) == "=(5,)" for s in slots):
            text = re.sub(r"\bD\b", "5", text)
        keyword = slot.parameter.kind is slot.parameter.KEYWORD_ONLY
        d = parse_one(text).named(slot.name, keyword=keyword)
        if slot.fixed and d.dtype in FLOATING:
            d = replace(d, fixed=True)
        out.append(d)
    return tuple(out)


def _text(option: str, shapes: Mapping[str, str], tensors: int, *, matrix: bool) -> str:
    if option == "count":
        return shapes.get("count", VALUES["count"][0])
    if option in _DISCRETE:
        usual = {
            "permutation": "int[B] permutation",
            "index": "int[B] in 0..3",
            "labels": "int[B] in 0..3",
            "mask": "bool[B]",
        }
        return shapes.get(option, usual[option])
    if tensors == 0 and not matrix and "first" in shapes:
        return shapes["first"]
    if tensors == 1 and option in ("data", "logits") and "other" in shapes:
        return shapes["other"]
    return shapes.get(option, shapes["data"])


def _key(candidate: Sequence[Described]) -> str:
    """The candidate with its symbols numbered: the same for the same question."""
    order = {
        s: i for i, s in enumerate(fill([s for d in candidate for s in d.symbols], {}))
    }
    text = "; ".join(map(str, candidate))
    return re.sub(
        r"[^\W\d]\w*", lambda m: f"${order[m[0]]}" if m[0] in order else m[0], text
    )
