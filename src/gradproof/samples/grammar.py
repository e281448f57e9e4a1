"""The grammar of inputs, read by hand: text in, Described out; nothing is evaluated.

    inputs    : [item] (";" [item])*
    item      : [name ("," name)* (":" | "=")] described      "=": passed by keyword
    described : ["fixed"] dtype ["[" [extent ("," extent)*] "]"]
                ["*" number] [("+" | "-") number]
                (pattern | "in" [end] ".." [end] | "within" [end] ".." [end])*
              | "size" extent
              | ["fixed"] value
    pattern   : ("spd" | "unit" | ...) ["[" axis "]"]
    value     : number | "text" | None | True | False | inf | nan
              | "(" values ")" | "[" values "]"

A line break separates items as ";" does; "#" starts a comment.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from gradproof.errors import UsageError
from gradproof.samples.described import (
    ALIASES,
    DTYPES,
    INTEGERS,
    PATTERNS,
    SQUARE,
    Described,
    nearest,
)
from gradproof.samples.extents import Extent, parse_extent

_TOKEN = re.compile(
    r"""(?P<blank>[^\S\n]+|\#[^\n]*)
      | (?P<break>[;\n])
      | (?P<number>(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[^\W\d]\w*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<sign>\.\.|//|[\[\](),:=*+\-/])""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS = {"None": None, "True": True, "False": False}
_SPECIAL = {"inf": math.inf, "nan": math.nan}
_LONGEST = 64  # digits of a number; longer is no size and no value anyone writes
_DEEPEST = 8
_AFTER = frozenset({"in", "within", *PATTERNS, "lower"})
# How types are called elsewhere, where the name alone would leave the width open.
_VAGUE = {"float": "f64 or f32", "complex": "c128 or c64", "tensor": "f64"}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end"
        return "the end of the line" if self.text == "\n" else f"'{self.text}'"


def parse(text: str) -> tuple[Described, ...]:
    """The inputs described by ``text``, in order; names that share one are separate.

    Raises UsageError with the text, a caret under the place, and what was expected.
    """
    parser = _Parser(text)
    out: list[Described] = []
    while parser.token.kind != "end":
        if parser.token.kind == "break":
            parser.take()
        else:
            out += parser.item()
            if parser.token.kind not in ("break", "end"):
                parser.fail("';' or the end")
    return tuple(out)


def parse_one(text: str) -> Described:
    """The one input described by ``text``; raises UsageError when there are more."""
    found = parse(text)
    if len(found) != 1:
        raise UsageError(f"expected one description, not {len(found)}, in {text!r}")
    return found[0]


class _Parser:
    """A cursor over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.seen: set[str] = set()

    @property
    def token(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.token
        self.at += token.kind != "end"
        return token

    def found(self, text: str) -> bool:
        """Take the next token if it is the sign or name ``text``."""
        here = self.token.kind in ("sign", "name") and self.token.text == text
        if here:
            self.take()
        return here

    def expect(self, text: str) -> None:
        if not self.found(text):
            self.fail(f"'{text}'")

    def fail(self, expected: str, token: _Token | None = None) -> NoReturn:
        at = token or self.token
        raise UsageError(
            f"the inputs cannot be read: expected {expected}, found {at}\n"
            + _caret(self.text, at.start, at.end)
        )

    def item(self) -> list[Described]:
        names: list[_Token] = []
        keyword = False
        following = self.tokens[self.at + 1] if self.token.kind == "name" else None
        if following is not None and following.text in (",", ":", "="):
            names.append(self.new_name())
            while self.found(","):
                names.append(self.new_name())
            keyword = self.token.text == "="
            if not keyword and self.token.text != ":":
                self.fail("':' or '='")
            self.take()
        start = self.token
        try:
            described = self.described()
        except UsageError as error:
            if "\n" in str(error):
                raise
            end = max(start.end, self.tokens[max(self.at - 1, 0)].end)
            place = _caret(self.text, start.start, end)
            raise UsageError(f"the inputs cannot be read: {error}\n{place}") from None
        if not names:
            return [described]
        return [described.named(name.text, keyword=keyword) for name in names]

    def new_name(self) -> _Token:
        if self.token.kind != "name":
            self.fail("a name")
        if self.token.text in self.seen:
            self.fail("a name that is not yet described")
        self.seen.add(self.token.text)
        return self.take()

    def described(self) -> Described:
        fixed = self.found("fixed")
        token = self.token
        if token.kind == "name" and token.text == "size" and not fixed:
            self.take()
            return Described(value=self.extent(), is_size=True)
        if token.kind == "name" and token.text not in _CONSTANTS | _SPECIAL:
            return replace(self.tensor(), fixed=fixed)
        return Described(value=self.value(), fixed=fixed)

    def tensor(self) -> Described:
        token = self.token
        if token.text not in ALIASES:
            self.unknown_dtype(token)
        self.take()
        dtype = ALIASES[token.text]
        shape: list[Extent] = []
        if self.found("["):
            while self.token.text != "]":
                shape.append(self.extent())
                if self.token.text != "]":
                    self.expect(",")
            self.take()
        scale = self.signed() if self.found("*") else 1.0
        if scale == 1 and self.found("/"):
            scale = 1.0 / (self.signed() or self.fail("a number other than 0"))
        offset = 0.0
        if self.token.text in ("+", "-") and self.token.kind == "sign":
            offset = self.signed(self.take().text)
        return self.tail(dtype, tuple(shape), scale, offset)

    def tail(
        self, dtype: str, shape: tuple[Extent, ...], scale: float, offset: float
    ) -> Described:
        pattern, ranges = "", {}
        whole = dtype in INTEGERS
        while self.token.kind == "name":
            word = self.token
            if word.text in ("in", "within") and word.text not in ranges:
                self.take()
                low = self.end(whole=whole and word.text == "in")
                self.expect("..")
                high = self.end(whole=whole and word.text == "in")
                if low is None and high is None:
                    self.fail("a number on at least one side of '..'")
                ranges[word.text] = (low, high)
            elif word.text in (*PATTERNS, "lower") and not pattern:
                pattern = self.pattern()
            else:
                self.fail(self.after(word))
        low, high = ranges.get("in", (None, None))
        floor, ceiling = ranges.get("within", (None, None))
        plain = Described(dtype=dtype, shape=shape)
        if scale != 1:
            plain = plain * scale
        if offset:
            plain = plain + offset
        return replace(
            plain,
            low=low,
            high=high,
            floor=-math.inf if floor is None else float(floor),
            ceiling=math.inf if ceiling is None else float(ceiling),
            pattern=pattern,
        )

    def after(self, word: _Token) -> str:
        near = nearest(word.text, tuple(_AFTER))
        hint = f" (did you mean {near}?)" if near else ""
        return f"';', 'in', 'within' or a pattern ({', '.join(PATTERNS)}){hint}"

    def pattern(self) -> str:
        name = self.take().text
        name = "triangular" if name == "lower" else name
        if not self.found("["):
            return name
        minus = "-" if self.found("-") else ""
        if name in SQUARE or self.token.kind != "number":
            self.fail("no axis" if name in SQUARE else "the number of an axis")
        axis = minus + self.take().text
        if not axis.lstrip("-").isdigit():
            self.fail("the number of an axis", self.tokens[self.at - 1])
        self.expect("]")
        return name if axis == "-1" else f"{name}[{axis}]"

    def extent(self) -> Extent:
        parts: list[str] = []
        while self.token.kind in ("number", "name"):
            if self.token.kind == "number" and not self.token.text.isdigit():
                break
            if self.token.text in _AFTER:
                break
            parts.append(self.take().text)
            if self.token.text not in ("+", "-", "*", "//"):
                return parse_extent("".join(parts))
            parts.append(self.take().text)
        return self.fail("an extent: a whole number or a name such as B")

    def end(self, *, whole: bool) -> float | Extent | None:
        """One end of a range; None where it is left open."""
        if self.token.text == ".." or self.token.kind in ("end", "break"):
            return None
        if self.token.kind == "name" and self.token.text in _AFTER:
            return None
        if whole:
            minus = self.found("-")
            extent = self.extent()
            if minus and isinstance(extent, str):
                self.fail("a whole number after '-'", self.tokens[self.at - 1])
            return -int(extent) if minus else extent
        return self.signed()

    def signed(self, sign: str = "+") -> float:
        minus = sign == "-"
        if self.found("-"):
            minus = not minus
        else:
            self.found("+")
        if self.token.kind != "number":
            self.fail("a number")
        number = float(self.take().text)
        return -number if minus else number

    def value(self, depth: int = 0) -> Any:
        token = self.token
        if token.kind == "text":
            return _unescaped(self.take().text[1:-1])
        if token.text in _CONSTANTS and token.kind == "name":
            return _CONSTANTS[self.take().text]
        if token.text in ("(", "["):
            return self.sequence(depth + 1)
        sign = self.take().text if token.text in ("+", "-") else ""
        token = self.token
        minus = sign == "-"
        if token.kind == "name" and token.text in _SPECIAL:
            special = _SPECIAL[self.take().text]
            return -special if minus else special
        if token.kind != "number":
            self.fail("a dtype (f64, f32, int, bool, ...) or a value")
        text = self.take().text
        number = int(text) if text.isdigit() else float(text)
        return -number if minus else number

    def sequence(self, depth: int) -> list[Any] | tuple[Any, ...]:
        if depth > _DEEPEST:
            self.fail("a sequence that is less deeply nested")
        opening = self.take().text
        closing = "]" if opening == "[" else ")"
        values: list[Any] = []
        comma = False
        while self.token.text != closing:
            values.append(self.value(depth))
            comma = self.token.text == ","
            if self.token.text != closing:
                self.expect(",")
        self.take()
        if opening == "(" and len(values) == 1 and not comma:
            return values[0]  # type: ignore[no-any-return]
        return values if opening == "[" else tuple(values)

    def unknown_dtype(self, token: _Token) -> NoReturn:
        following = self.tokens[self.at + 1]
        if following.kind in ("name", "number", "text"):
            self.fail("':' after the name", following)
        if token.text.lower() in _VAGUE:
            hint = f"write {_VAGUE[token.text.lower()]}"
        elif token.text.lower() in ("true", "false", "none"):
            hint = f"did you mean {token.text.capitalize()}?"
        elif near := nearest(token.text, tuple(ALIASES)):
            hint = f"did you mean {near}?"
        else:
            hint = "dtypes are " + ", ".join(names[0] for names in DTYPES.values())
        raise UsageError(
            f"the inputs cannot be read: unknown dtype '{token.text}'; {hint}\n"
            + _caret(self.text, token.start, token.end)
        )


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            expected = f"a description, found '{text[at]}'"
            if text[at] in "\"'":
                expected = f"a second {text[at]} on this line, found none"
            raise UsageError(
                f"the inputs cannot be read: expected {expected}\n"
                + _caret(text, at, at + 1)
            )
        kind = match.lastgroup or ""
        if kind == "number" and len(match.group()) > _LONGEST:
            raise UsageError(
                f"the inputs cannot be read: expected a number of at most {_LONGEST}"
                f" characters\n" + _caret(text, at, at + 1)
            )
        if kind != "blank":
            tokens.append(_Token(kind, match.group(), at, match.end()))
        at = match.end()
    tokens.append(_Token("end", "", len(text), len(text)))
    return tokens


def _unescaped(body: str) -> str:
    return re.sub(
        r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), body
    )


def _caret(text: str, start: int, end: int) -> str:
    """The line of ``text`` that holds ``start``, and carets under it up to ``end``."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first : len(text) if last < 0 else last]
    width = max(1, min(end, first + len(line)) - start)
    return f"  {line.expandtabs(1)}\n  {' ' * (start - first)}{'^' * width}"
