"""What the command line said, and the command line that says it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True)
class Options:
    """The options of ``gradproof check``; None, False and "" where nothing was said."""

    target: str
    inputs: str = ""
    replay: str = ""
    size: Mapping[str, int] = field(default_factory=dict)
    dtype: str = ""
    orders: int | None = None
    compile: bool = False
    allow: tuple[str, ...] = ()
    suggest: bool = False
    strict: bool = False
    verbose: bool = False
    output: str = ""
    json: str = ""
    save: str = ""
    seed: int | None = None


@dataclass(frozen=True)
class Settings:
    """What was typed, and that with the defaults of pyproject.toml behind it."""

    typed: Options
    said: Options

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return self.said.seed or 0

    @property
    def concise(self) -> bool:
        """Whether a finding is one line."""
        return self.said.output == "concise"


_SILENT = Options("")


def command(options: Options) -> str:
    """The command line that says ``options``, no more and no less, for a shell."""
    words = ["gradproof", "check", options.target]
    for each in fields(Options)[1:]:
        value = getattr(options, each.name)
        if value != getattr(_SILENT, each.name):
            words += _said(each.name, value)
    return shlex.join(words)


def again(options: Options, **changed: Any) -> str:
    """The command that asks the same again, with ``changed``; it writes no files."""
    return command(replace(options, **{"json": "", "save": "", **changed}))


def _said(name: str, value: Any) -> Iterator[str]:
    flag = {"inputs": "-i", "verbose": "-v"}.get(name, f"--{name}")
    if value is True:
        yield flag
    elif isinstance(value, tuple):
        for item in value:
            yield from (flag, item)
    elif isinstance(value, Mapping):
        yield from (flag, ",".join(f"{symbol}={n}" for symbol, n in value.items()))
    elif str(value).startswith("-"):  # else it is taken for a flag
        yield f"--{name}={value}"
    else:
        yield from (flag, str(value))
