"""Saved inputs come back as they were; other files are refused with a sentence."""

import numpy as np
import pytest

from gradproof.errors import UsageError
from gradproof.samples import arg, draw, load, parse, save

TEXT = (
    "x: bf16[3]; z: c64[2] ; i: int[4] in 0..3; m: bool[3]; w: fixed f32[2];"
    ' r: f64[3] within 0..; p: f32[2,2] spd; eps=1e-6; mode: "a;b"; n: None; t: (1, [2])'
)


def test_what_is_saved_is_loaded(tmp_path):
    path = tmp_path / "case.failing"
    drawn = draw(parse(TEXT), {}, 3)
    save(path, drawn)
    assert path.exists()
    back = load(path)
    for one, other in zip(drawn, back, strict=True):
        for name in ("name", "dtype", "fixed", "low", "high", "keyword", "pattern"):
            assert getattr(one, name) == getattr(other, name)
        assert one.value == other.value
        assert type(one.value) is type(other.value)
        assert np.array_equal(one.array, other.array) or one.array is None


def test_own_objects_and_bad_paths_are_refused(tmp_path):
    held = draw([arg.named(object(), "f")], {}, 0)
    with pytest.raises(UsageError, match="f: a object cannot be saved"):
        save(tmp_path / "x.npz", held)
    with pytest.raises(
        UsageError, match="cannot be written: No such file or directory"
    ):
        save(tmp_path / "no" / "x.npz", [])


def write_pickle(path):
    np.savez(path, **{"inputs.json": np.array([{"a": 1}], dtype=object)})


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_text("nothing"),
        lambda path: path.write_bytes(b"PK\x03\x04 cut off"),
        lambda path: np.savez(path, x=np.ones(3)),
        lambda path: np.savez(path, **{"inputs.json": np.array("[1]")}),
        write_pickle,
    ],
    ids=["text", "broken", "other", "list", "pickle"],
)
def test_other_files_are_refused(tmp_path, write):
    path = tmp_path / "other.npz"
    write(path)
    with pytest.raises(
        UsageError, match=r"other\.npz holds no inputs that gradproof saved"
    ):
        load(path)


def test_an_absent_file_is_said(tmp_path):
    with pytest.raises(UsageError, match=r"none\.npz does not exist"):
        load(tmp_path / "none.npz")
