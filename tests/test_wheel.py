"""What a user installs: the wheel holds the types, the pages of the cards, the command."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    run = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


def test_every_file_of_the_package_is_in_it(wheel):
    source = ROOT / "src"
    files = {
        str(path.relative_to(source))
        for path in (source / "gradproof").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files <= set(wheel.namelist())


def test_types_and_pages_are_in_it(wheel):
    names = set(wheel.namelist())
    assert "gradproof/py.typed" in names
    cards = (ROOT / "src/gradproof/diagnosis/cards").glob("*.md")
    pages = {f"gradproof/diagnosis/cards/{card.name}" for card in cards}
    assert pages, "no card has a page"
    assert pages <= names


def test_it_says_what_it_is(wheel):
    (name,) = [n for n in wheel.namelist() if n.endswith("METADATA")]
    metadata = wheel.read(name).decode()
    assert "License-Expression: MIT" in metadata
    assert "Requires-Dist: numpy" in metadata
    for extra in ("torch", "report", "test"):
        assert f"Provides-Extra: {extra}" in metadata
    needed = [
        line
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist") and "extra ==" not in line
    ]
    assert len(needed) == 2, needed  # numpy and rich; nothing else is forced on anyone


def test_it_brings_the_command(wheel):
    (name,) = [n for n in wheel.namelist() if n.endswith("entry_points.txt")]
    assert "gradproof = gradproof.__main__:main" in wheel.read(name).decode()
