"""A user's folder, the command line as a call, and as a real process."""

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import pytest

from gradproof.__main__ import main


@dataclass(frozen=True)
class Ran:
    """What a run left: its exit code and its two streams."""

    code: int
    out: str
    err: str

    @property
    def sentence(self):
        """The one sentence on stderr, without the carets under it."""
        lines = [
            line for line in self.err.splitlines() if line.startswith("gradproof: ")
        ]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("gradproof: ")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that is the current one; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def write(folder):
    """Write a file of the user's, its text dedented."""

    def to_file(name, text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return to_file


@pytest.fixture
def run(folder, capsys):
    """The command line, called in this process."""

    def call(*argv):
        capsys.readouterr()
        try:
            code = main([str(word) for word in argv])
        except SystemExit as left:
            code = left.code
        streams = capsys.readouterr()
        return Ran(code, streams.out, streams.err)

    return call


@pytest.fixture
def process(folder):
    """The command line as a process of its own."""

    def call(*argv, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "gradproof", *map(str, argv)],
            capture_output=True, text=True, encoding="utf-8", cwd=folder, timeout=120,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    return call
