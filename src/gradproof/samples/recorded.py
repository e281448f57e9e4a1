"""Drawn inputs on disk: an .npz that is safe to open, since nothing in it is a pickle."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradproof.errors import UsageError
from gradproof.samples.described import DTYPES, literal
from gradproof.samples.drawing import Drawn
from gradproof.samples.grammar import parse_one

_INDEX = "inputs.json"
_KINDS = "fciub"  # kinds of NumPy dtype that an input may have


def save(path: str | Path, drawn: Sequence[Drawn]) -> None:
    """Write ``drawn`` to ``path``; ``load`` gives it back.

    Raises UsageError for a value that is neither an array nor a plain value.
    """
    arrays: dict[str, Any] = {}
    entries = []
    for i, one in enumerate(drawn):
        entry: dict[str, Any] = {
            "name": one.name, "dtype": one.dtype, "fixed": one.fixed, "low": one.low,
            "high": one.high, "keyword": one.keyword, "pattern": one.pattern,
        }  # fmt: skip
        if one.array is not None:
            entry["array"] = f"a{i}"
            arrays[f"a{i}"] = one.array
        else:
            entry["value"] = _written(one)
        entries.append(entry)
    text = json.dumps({"format": "gradproof inputs", "inputs": entries})
    try:
        with Path(path).open("wb") as stream:
            np.savez(stream, allow_pickle=False, **{_INDEX: np.array(text)}, **arrays)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def load(path: str | Path) -> list[Drawn]:
    """The inputs that ``save`` wrote to ``path``.

    Raises UsageError for a file that is absent or was not written so.
    """
    try:
        with (
            Path(path).open("rb") as stream,
            np.load(stream, allow_pickle=False) as found,
        ):
            entries = json.loads(str(found[_INDEX]))["inputs"]
            return [_read(entry, found) for entry in entries]
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except OSError as error:
        if error.strerror:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        raise UsageError(f"{path} holds no inputs that gradproof saved") from None
    except (
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        zipfile.BadZipFile,
        AttributeError,
    ):
        raise UsageError(f"{path} holds no inputs that gradproof saved") from None


def _written(one: Drawn) -> str:
    text = literal(one.value)
    try:
        parse_one(text)
    except UsageError:
        kind = type(one.value).__name__
        raise UsageError(
            f"{one.name or 'an input'}: a {kind} cannot be saved"
        ) from None
    return text


def _read(entry: dict[str, Any], found: Any) -> Drawn:
    array, value = None, None
    if "array" in entry:
        array = found[entry["array"]]
        if array.dtype.kind not in _KINDS or entry["dtype"] not in DTYPES:
            raise ValueError(entry["dtype"])
    else:
        value = parse_one(entry["value"]).value
    return Drawn(
        name=str(entry["name"]), array=array, dtype=str(entry["dtype"]), value=value,
        fixed=bool(entry["fixed"]), low=float(entry["low"]), high=float(entry["high"]),
        keyword=bool(entry["keyword"]), pattern=str(entry["pattern"]),
    )  # fmt: skip
