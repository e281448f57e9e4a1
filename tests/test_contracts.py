"""The shape of the house: who may import whom, and a page at the door of each room."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "gradproof"
ROOMS = sorted(p.parent for p in PACKAGE.glob("*/__init__.py"))


def lint_imports(config: Path, path: Path) -> subprocess.CompletedProcess[str]:
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert command is not None, "lint-imports is missing: pip install -e '.[dev]'"
    return subprocess.run(
        [command, "--no-cache", str(config)],
        cwd=path,
        env={"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
    )


def test_imports_go_one_way():
    run = lint_imports(ROOT / "pyproject.toml", ROOT / "src")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("file", "line", "shown"),
    [
        ("numdiff/__init__.py", "import gradproof.checks", "one way BROKEN"),
        ("checks/__init__.py", "import torch", "only in adapters BROKEN"),
        ("adapters/__init__.py", "import gradproof.oracles", "do not judge BROKEN"),
        ("diagnosis/__init__.py", "import gradproof.rule", "are pure BROKEN"),
        ("newcomer.py", "", "gradproof.newcomer"),  # a module in no layer
    ],
)
def test_the_test_above_can_fail(tmp_path, file, line, shown):
    shutil.copytree(
        PACKAGE, tmp_path / "gradproof", ignore=shutil.ignore_patterns("__pycache__")
    )
    planted = tmp_path / "gradproof" / file
    before = planted.read_text() if planted.exists() else ""
    planted.write_text(f"{before}\n{line}\n")
    run = lint_imports(ROOT / "pyproject.toml", tmp_path)
    assert run.returncode != 0, run.stdout + run.stderr
    assert any(shown in line for line in run.stdout.splitlines()), run.stdout


def test_there_are_rooms():
    assert {"numdiff", "oracles", "checks", "diagnosis"} <= {r.name for r in ROOMS}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_each_room_has_a_page_at_its_door(room):
    page = room / "README.md"
    assert page.exists(), f"{page.relative_to(ROOT)} is missing: what the room knows"
    lines = [line for line in page.read_text().splitlines() if line.strip()]
    assert 3 <= len(lines) <= 40, f"{room.name}/README.md has {len(lines)} lines"
