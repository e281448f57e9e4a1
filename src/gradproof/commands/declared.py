"""What the user wrote down beforehand: inputs in the file, defaults in pyproject.toml."""

from __future__ import annotations

import inspect
import io
import re
import tokenize
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from gradproof.commands import words
from gradproof.commands.kinds import has_backward, is_function, pairs
from gradproof.commands.targets import Target
from gradproof.errors import UsageError
from gradproof.samples import ALIASES, nearest

TABLE = "GRADPROOF"
_COMMENT = re.compile(r"#\s*gradproof:\s*inputs\b:?\s*(.*)")


@dataclass(frozen=True)
class Wording:
    """Inputs in the grammar, and where they were written."""

    text: str
    where: str


@dataclass(frozen=True)
class Defaults:
    """``[tool.gradproof]`` of the nearest pyproject.toml; None where it says nothing."""

    file: str = ""
    seed: int | None = None
    allow: tuple[str, ...] = ()
    strict: bool = False
    orders: int | None = None
    compile: bool = False
    dtype: str = ""
    output: str = ""
    size: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)


def in_file(module: ModuleType, shown: str) -> dict[str, Wording]:
    """Inputs by name, from the table ``GRADPROOF`` and from comments of the module."""
    found = dict(_from_comments(module, shown))
    table = getattr(module, TABLE, {})
    if not isinstance(table, Mapping) or not all(
        isinstance(key, str) and isinstance(text, str) for key, text in table.items()
    ):
        raise UsageError(words.BAD_TABLE.format(file=shown))
    for name, text in table.items():
        if _walk(module, name) is None:
            near = nearest(
                name, tuple(n for n in vars(module) if not n.startswith("_"))
            )
            raise UsageError(
                words.NO_TABLE_NAME.format(
                    file=shown, name=name, hint=words.meant(near)
                )
            )
        found[name] = Wording(text, f"{TABLE}[{name!r}] in {shown}")
    return found


def _walk(module: ModuleType, name: str) -> Any:
    thing: Any = module
    for part in name.split("."):
        thing = getattr(thing, part, None)
    return thing


def _from_comments(module: ModuleType, shown: str) -> list[tuple[str, Wording]]:
    """Each ``# gradproof: inputs …`` belongs to the class or function right below it.

    Where a blank line or something else stands between, it belongs to the next custom
    gradient below, or if there is none, to the next class or function. Lines one after
    the other are one description.
    """
    try:
        text = inspect.getsource(module)
    except (OSError, TypeError):
        return []
    blocks = _blocks(text)
    if not blocks:
        return []
    own: dict[str, int] = {}
    others: dict[str, int] = {}
    pair = {name for name, _ in pairs(module)}
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", None) != module.__name__:
            thing = getattr(thing, "_init_fn", None)
            if getattr(thing, "__module__", None) != module.__name__:
                continue
        try:
            line = inspect.getsourcelines(thing)[1]
        except (OSError, TypeError):
            continue
        custom = is_function(thing) and has_backward(thing)
        (own if custom or name in pair else others)[name] = line
    taken: dict[str, list[tuple[int, str]]] = {}
    for line, said in blocks:
        after = {name: at for name, at in others.items() if at == line + 1}
        after = after or {name: at for name, at in own.items() if at > line}
        after = after or {name: at for name, at in others.items() if at > line}
        if after:
            taken.setdefault(min(after, key=after.__getitem__), []).append((line, said))
    out = []
    for name, lines in taken.items():
        last = lines[-1][0]
        run = [
            s for i, (line, s) in enumerate(lines) if last - line == len(lines) - 1 - i
        ]
        out.append((name, Wording("\n".join(run), f"the comment at {shown}:{last}")))
    return out


def _blocks(text: str) -> list[tuple[int, str]]:
    """Line and words of each such comment; comments only, never text in quotes."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match = (
                _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
            )
            if match:
                found.append((token.start[0], match[1]))
    except (tokenize.TokenError, SyntaxError):
        return []
    return found


def wording(
    target: Target, found: Mapping[str, Wording], defaults: Defaults
) -> Wording | None:
    """The inputs written down for ``target``: in its file, else in pyproject.toml."""
    last = target.name.rsplit(".", 1)[-1]
    for name in (target.name, last):
        if name in found:
            return found[name]
    stem = Path(target.address.split("::")[0]).stem
    for key in (
        target.address,
        f"{stem}:{target.name}",
        f"{stem}::{target.name}",
        target.name,
    ):
        if key in defaults.inputs:
            return Wording(defaults.inputs[key], f"inputs of {key} in {defaults.file}")
    return None


def defaults_near(folder: Path) -> Defaults:
    """``[tool.gradproof]`` of the pyproject.toml in ``folder`` or nearest above it.

    Raises UsageError for a file that is no TOML, a key that is not known, and a value of
    another type than the key takes.
    """
    for place in (folder.resolve(), *folder.resolve().parents):
        path = place / "pyproject.toml"
        if path.is_file():
            return _read(path)
    return Defaults()


def _read(path: Path) -> Defaults:
    shown = _short(path)
    try:
        whole = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(words.BAD_TOML.format(file=shown, said=error)) from None
    table = whole.get("tool", {})
    table = table.get("gradproof", {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(
            words.BAD_VALUE.format(file=shown, key="gradproof", wanted="a table")
        )
    for key, value in table.items():
        if key not in _KEYS:
            hint = words.meant(nearest(key, tuple(_KEYS)))
            raise UsageError(words.BAD_KEY.format(file=shown, key=key, hint=hint))
        fits, wanted = _KEYS[key]
        if not fits(value):
            raise UsageError(words.BAD_VALUE.format(file=shown, key=key, wanted=wanted))
    allow = table.get("allow", ())
    allow = (allow,) if isinstance(allow, str) else tuple(allow)
    dtype = ALIASES.get(table.get("dtype", ""), "")
    return Defaults(**{**table, "allow": allow, "dtype": dtype, "file": shown})


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _texts(value: Any) -> bool:
    many: Sequence[Any] = [value] if isinstance(value, str) else value
    return isinstance(many, list) and all(isinstance(item, str) for item in many)


def _table_of(fits: Any) -> Any:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


_KEYS: dict[str, tuple[Any, str]] = {
    "seed": (_whole, "a whole number from 0 on"),
    "allow": (_texts, "a slug or a list of slugs"),
    "strict": (lambda value: isinstance(value, bool), "true or false"),
    "compile": (lambda value: isinstance(value, bool), "true or false"),
    "orders": (lambda value: value in (1, 2), "1 or 2"),
    "dtype": (
        lambda value: isinstance(value, str) and value in ALIASES,
        "a dtype such as f32",
    ),
    "output": (lambda value: value in ("full", "concise"), '"full" or "concise"'),
    "size": (_table_of(_whole), "a table of whole numbers such as {B = 2}"),
    "inputs": (
        _table_of(lambda value: isinstance(value, str)),
        'a table of texts such as {Softplus = "x: f32[8, 64]"}',
    ),
}  # fmt: skip
