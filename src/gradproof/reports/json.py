"""Record ↔ JSON: the file that every other format can be made from later.

Law: ``from_json(to_json(record))`` equals ``record``, arrays to the bit; NaN stays NaN and
infinity infinity. The file is ASCII and strict JSON, and safe to open when it comes from
someone else: reading it builds records and numbers, nothing else.
"""

from __future__ import annotations

import json
import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, cast

import numpy as np

from gradproof import space, verdict
from gradproof.errors import UsageError
from gradproof.reports import words
from gradproof.verdict import Record

# Raised when a reader of the old form would misread the new one; a new field with a
# default is no such change.
SCHEMA = 1

_KNOWN: dict[str, type] = {
    name: thing
    for module in (space, verdict)
    for name, thing in vars(module).items()
    if isinstance(thing, type)
    and thing.__module__ == module.__name__
    and (is_dataclass(thing) or issubclass(thing, Enum))
}
_NUMBERS = "biufc"  # kinds of NumPy dtype that a file may hold
# Longer arrays are packed (little-endian bytes, zlib, base64): as lists, the evidence of
# a problem of 120 000 entries took 150 MB.
_LISTED = 4096
_UNREADABLE = (
    LookupError, TypeError, ArithmeticError, ValueError, RecursionError, zlib.error,
)  # fmt: skip


def to_json(record: Record) -> str:
    """The file of one record."""
    return dump((record,))


def from_json(text: str) -> Record:
    """The one record of a file; UsageError where it holds none or several."""
    records = load(text)
    if len(records) != 1:
        raise UsageError(words.NOT_ONE_RECORD.format(count=len(records)))
    return records[0]


def dump(records: Iterable[Record]) -> str:
    """The file of several records, in order, as an audit writes it."""
    document = {
        "format": "gradproof",
        "schema": SCHEMA,
        "records": [_encode(record) for record in records],
    }
    return json.dumps(document, allow_nan=False, indent=1)


def load(text: str) -> tuple[Record, ...]:
    """The records of a file, in order.

    Raises:
        UsageError: the text is no such file, or of a schema that is not known here.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(words.NOT_JSON.format(error=error)) from error
    if not isinstance(document, dict) or document.get("format") != "gradproof":
        raise UsageError(words.NOT_A_REPORT)
    schema = document.get("schema")
    if schema != SCHEMA:
        raise UsageError(words.OTHER_SCHEMA.format(found=schema, known=SCHEMA))
    try:
        records = tuple(_decode(item) for item in document["records"])
    except _UNREADABLE as error:
        raise UsageError(words.DAMAGED.format(error=error)) from error
    if not all(isinstance(record, Record) for record in records):
        raise UsageError(words.NOT_A_REPORT)
    return records


def _encode(value: Any) -> Any:
    """A JSON value; whatever JSON cannot tell apart is tagged with ``$kind``."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, Enum):
        return {"$kind": type(value).__name__, "value": value.value}
    if isinstance(value, np.generic):
        return _encode(value.item())
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else {"$kind": "float", "value": str(value)}
        )
    if isinstance(value, complex):
        return {"$kind": "complex", "value": [str(value.real), str(value.imag)]}
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
        return _array(value)
    if is_dataclass(value) and type(value).__name__ in _KNOWN:
        members = {f.name: _encode(getattr(value, f.name)) for f in fields(value)}
        return {"$kind": type(value).__name__, **members}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, list):
        return {"$kind": "list", "value": [_encode(item) for item in value]}
    if isinstance(value, dict):
        items = [[_encode(k), _encode(v)] for k, v in value.items()]
        return {"$kind": "dict", "value": items}
    return str(value)  # what is no record and no number survives as its text


def _array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    head = {"$kind": "array", "dtype": value.dtype.name, "shape": list(value.shape)}
    if value.size > _LISTED:
        raw = value.astype(value.dtype.newbyteorder("<")).tobytes()
        return {**head, "packed": b64encode(zlib.compress(raw, level=1)).decode()}
    flat = value.reshape(-1)
    if value.dtype.kind == "c":
        flat = np.ascontiguousarray(flat).view(flat.real.dtype)
    data = [
        x if not isinstance(x, float) or math.isfinite(x) else str(x)
        for x in flat.tolist()
    ]
    return {**head, "value": data}


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    kind = value["$kind"]
    if kind == "float":
        return float(value["value"])
    if kind == "complex":
        real, imag = value["value"]
        return complex(float(real), float(imag))
    if kind == "array":
        return _undo_array(value)
    if kind == "list":
        return [_decode(item) for item in value["value"]]
    if kind == "dict":
        return {_decode(k): _decode(v) for k, v in value["value"]}
    thing = _KNOWN[kind]
    if issubclass(thing, Enum):
        return thing(value["value"])
    known = {f.name for f in fields(cast(Any, thing))}
    return thing(**{k: _decode(v) for k, v in value.items() if k in known})


def _undo_array(value: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype = np.dtype(value["dtype"])
    shape = tuple(value["shape"])
    if dtype.kind not in _NUMBERS:
        raise ValueError(dtype.name)
    if "packed" in value:
        return _unpack(value["packed"], dtype, shape)
    data = [float(x) if isinstance(x, str) else x for x in value["value"]]
    parts = np.array(data, np.zeros(0, dtype).real.dtype)
    out: np.ndarray[Any, Any] = parts.view(dtype).reshape(shape)
    return out


def _unpack(
    packed: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    size = math.prod(shape) * dtype.itemsize
    # No more than was announced is unpacked: the file may come from anyone.
    raw = zlib.decompressobj().decompress(b64decode(packed, validate=True), size)
    little = np.frombuffer(raw, dtype.newbyteorder("<"))
    out: np.ndarray[Any, Any] = little.astype(dtype).reshape(shape)
    return out
