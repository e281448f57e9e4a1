"""The file: everything comes back, nothing else is built, and bad files get a sentence."""

from __future__ import annotations

import json as stdlib
import math
import zlib
from base64 import b64encode
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gradproof.errors import UsageError
from gradproof.reports import json, terminal
from gradproof.space import Leaf, Space
from gradproof.verdict import (
    Code,
    Effect,
    Finding,
    Record,
    Severity,
    Undecided,
    Verdict,
    Worst,
)

from . import records as r


def bits(a: np.ndarray) -> bytes:
    """The bytes of an array, with one NaN for all."""
    parts = np.array(a).reshape(-1).view(a.real.dtype)
    if parts.dtype.kind == "f":
        parts[np.isnan(parts)] = np.nan
    return parts.tobytes()


def same(a: object, b: object) -> bool:
    """Equal in type and value, arrays in dtype and shape, NaN equal to NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    return a == b


ALL = replace(
    r.FAIL,
    findings=(r.DROPPED, r.SIGN, r.UNSTABLE, r.NOTE, r.STRAIGHT),
    undecided=r.KINK.undecided,
    limits=r.PASS.limits,
    evidence=r.measured(),
)


@pytest.mark.parametrize("record", [r.FAIL, r.PASS, r.KINK, r.VACUOUS, ALL])
def test_round_trip(record):
    again = json.from_json(json.to_json(record))
    assert same(again, record)
    assert terminal.render(again, verbose=True) == terminal.render(record, verbose=True)


def test_same_can_fail():
    assert not same(r.FAIL, replace(r.FAIL, seed=8))
    assert not same(np.zeros(2), np.zeros((2, 1)))
    assert not same(0.0, -0.0)
    assert not same((1,), [1])


NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.complex_numbers(), st.sampled_from([*Code, *Verdict, *Severity]),
    arrays.arrays(
        st.sampled_from(["f8", "f4", "i8", "i1", "u2", "?", "c16", "c8"]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
)  # fmt: skip
ANYTHING = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.builds(Effect, st.text(max_size=3), st.text(max_size=3), st.just("")),
        st.builds(lambda x: Undecided("kink", x, "", ""), inner),
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ANYTHING, st.floats(), st.text(max_size=10))
def test_whatever_was_measured_comes_back(value, number, text):
    evidence = replace(
        r.evidence(0.0), answers=((text, value),), nondeterministic=number
    )
    worst = Worst(text, "", number, -number, number)
    finding = Finding(text, text, Severity.NOTE, worst=worst)
    record = Record(text, Verdict.PASS, (finding,), evidence=evidence)
    written = json.to_json(record)
    assert written.isascii()
    assert same(json.from_json(written), record)


def test_numpy_scalars_come_back_as_numbers():
    evidence = replace(
        r.evidence(0.0),
        answers=(("a", np.float64(0.5)), ("b", np.int8(3)), ("c", np.bool_(True))),
    )
    again = json.from_json(json.to_json(replace(r.PASS, evidence=evidence)))
    assert same(again.evidence.answers, (("a", 0.5), ("b", 3), ("c", True)))


def test_what_is_no_record_survives_as_text():
    evidence = replace(r.evidence(0.0), answers=(("a", {1, 2}),))
    again = json.from_json(json.to_json(replace(r.PASS, evidence=evidence)))
    assert again.evidence.answers == (("a", "{1, 2}"),)


@pytest.mark.parametrize("dtype", ["f8", ">f8", "f4", "c16", "i8", "i1", "?"])
def test_long_arrays_are_packed_and_come_back(dtype):
    rng = np.random.default_rng(0)
    long = rng.normal(size=(70, 80)).astype(dtype)
    evidence = replace(r.evidence(0.0), answers=(("a", long),))
    text = json.to_json(replace(r.PASS, evidence=evidence))
    assert len(text) < 20 * long.size + 10_000
    (_, again), *_ = json.from_json(text).evidence.answers
    assert again.dtype == long.dtype.newbyteorder("=")
    assert again.shape == long.shape
    assert np.array_equal(again, long)
    again[0, 0] = 1  # not a view of the file


def packed(text: str, shape: int = 5000) -> str:
    array = {"$kind": "array", "dtype": "f8", "shape": [shape], "packed": text}
    return edited(records=[array])


def test_several_records_keep_their_order():
    assert [x.name for x in json.load(json.dump([r.KINK, r.PASS, r.VACUOUS]))] == [
        "LeakyClamp",
        "Softplus",
        "Scale",
    ]
    assert json.load(json.dump([])) == ()
    with pytest.raises(UsageError, match="holds 2; use `load`"):
        json.from_json(json.dump([r.PASS, r.FAIL]))


def test_it_is_strict_json():
    def refuse(name):
        raise AssertionError(name)

    document = stdlib.loads(json.to_json(ALL), parse_constant=refuse)
    assert (document["format"], document["schema"]) == ("gradproof", 1)


def test_fields_of_a_later_minor_version_are_ignored_and_missing_ones_have_defaults():
    document = stdlib.loads(json.to_json(r.VACUOUS))
    record = document["records"][0]
    record["mood"] = {"$kind": "float", "value": "nan"}
    del record["seconds"]
    assert same(json.from_json(stdlib.dumps(document)), r.VACUOUS)


def edited(**changes: object) -> str:
    return stdlib.dumps({**stdlib.loads(json.to_json(r.PASS)), **changes})


def test_a_packed_array_unpacks_to_no_more_than_it_says():
    bomb = b64encode(zlib.compress(bytes(10**7))).decode()
    with pytest.raises(UsageError, match="no report"):  # read, but no record
        json.load(packed(bomb, 2))
    for text in ("***", "AAAA", bomb[:40]):
        with pytest.raises(UsageError, match="is damaged"):
            json.load(packed(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no report of gradproof; `report.to_json` writes one"),
        ("{}", "no report of gradproof"),
        (edited(format="coverage"), "no report of gradproof"),
        (edited(schema=2), "has schema 2 and this gradproof reads schema 1"),
        (edited(schema=None), "has schema None"),
        (edited(records=[1]), "no report of gradproof"),
        (edited(records=3), "is damaged"),
        (edited(records=[{"$kind": "Record"}]), "is damaged"),
        (edited(records=[{"$kind": "Popen", "args": ["ls"]}]), r"damaged .*'Popen'"),
        (edited(records=[{"name": "f"}]), "is damaged"),
        (edited(records=[{"$kind": ["a"]}]), "is damaged"),
        (edited(records=[{"$kind": "Verdict", "value": "MAYBE"}]), "is damaged"),
        (edited(records=[{"$kind": "float", "value": "x"}]), "is damaged"),
        (
            edited(
                records=[{"$kind": "array", "dtype": "O", "shape": [1], "value": [1]}]
            ),
            "is damaged",
        ),
        (
            edited(
                records=[{"$kind": "array", "dtype": "f8", "shape": [3], "value": [1]}]
            ),
            "is damaged",
        ),
        (
            edited(
                records=[
                    {"$kind": "array", "dtype": "i1", "shape": [1], "value": [999]}
                ]
            ),
            "is damaged",
        ),
    ],
)
def test_a_bad_file_gets_a_sentence(text, says):
    with pytest.raises(UsageError, match=says):
        json.load(text)


def test_a_space_works_after_reading():
    space = json.from_json(json.to_json(r.FAIL)).evidence.domain
    assert space == Space.of([Leaf("x", (4, 3))])
    assert str(space.place(6)) == "x[2, 0]"
