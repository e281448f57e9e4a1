"""CONTRIBUTING.md shows how to add things: they are added to a copy, and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from breaches import breaches
from pages import ROOT, blocks, code_in, commands, table

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LONG = re.compile(r"^````markdown\n(.*?)^````$", re.MULTILINE | re.DOTALL)
(PAGE,) = LONG.findall(TEXT)
PLAIN = LONG.sub("", TEXT)
CARDS = "gradproof/diagnosis/cards"


def shown(file: str) -> str:
    """The block that begins with the name of a file, without that line."""
    (body,) = [
        code.partition("\n")[2]
        for code in blocks(PLAIN, "python")
        if code.startswith(f"# {file}\n")
    ]
    return body


@pytest.fixture
def copy(tmp_path):
    """A folder with a copy of the package, and a way to run Python against it."""
    shutil.copytree(
        ROOT / "src" / "gradproof",
        tmp_path / "gradproof",
        ignore=shutil.ignore_patterns("__pycache__"),
    )

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
        )

    python.folder = tmp_path
    return python


def test_the_card_names_its_mistake_and_only_that(copy):
    cards = copy.folder / CARDS
    (cards / "running_total.py").write_text(
        shown("src/gradproof/diagnosis/cards/running_total.py"), encoding="utf-8"
    )
    (cards / "running_total.md").write_text(PAGE, encoding="utf-8")
    wrong, right = blocks(PAGE, "python")
    for name, code in (("wrong", wrong), ("right", right)):
        code = code.replace("\ncheck(", "\nreport = check(")
        (copy.folder / f"{name}.py").write_text(code, encoding="utf-8")
    plant = shown("tests/planted/planted_mistakes.py")
    program = f"""
    import gradproof, right, sys, wrong
    assert gradproof.__file__.startswith({str(copy.folder)!r})
    first = wrong.report.findings[0]
    assert first.slug == "running-total", wrong.report
    assert first.help.confirmed, wrong.report
    assert right.report.ok, right.report

    sys.path.insert(0, {str(ROOT / "tests" / "planted")!r})
    import numpy as np
    from planted_evidence import Bench, diagnosed
    from planted_mistakes import PLANTS, on_leaf, plant
    from planted_rules import cases
    exec({plant!r})
    led = []
    for case in cases(3):
        b = Bench(case, "float64", None, np.random.default_rng(3))
        b.vjp = PLANTS[-1][2](b)
        if b.vjp is not None and b.evidence().wrong:
            led.append(diagnosed(b).findings[0].slug)
    assert len(led) > 15
    assert led.count("running-total") >= 0.75 * len(led), led
    """
    run = copy("-c", textwrap.dedent(program))
    assert run.returncode == 0, run.stderr
    told = copy("-m", "gradproof", "explain", "running-total")
    assert told.stdout.startswith("# running-total\n"), told.stderr


def test_the_way_catches_the_rule_that_is_wrong_only_there(copy):
    adapters = copy.folder / "gradproof" / "adapters"
    engines, ways = adapters / "torch_engines.py", adapters / "torch_ways.py"
    head = "_ENGINES: dict[str, Callable[[Question], Grads]] = {\n"
    text = engines.read_text(encoding="utf-8")
    assert head in text
    made = shown("src/gradproof/adapters/torch_engines.py")
    row = shown("src/gradproof/adapters/torch_engines.py, in _ENGINES")
    engines.write_text(text.replace(head, f"{made}\n\n{head}{row}"), encoding="utf-8")
    text = ways.read_text(encoding="utf-8")
    head, name = "_ENGINES = (\n", "    CREATE_GRAPH,\n"
    assert head in text
    assert name in text
    row = shown("src/gradproof/adapters/torch_ways.py, in _ENGINES")
    text = text.replace(head, head + row).replace(name, f"{name}    DETERMINISTIC,\n")
    ways.write_text(text, encoding="utf-8")
    for name in ("conftest.py", "ways_planted.py", "test_ways_matrix.py"):
        shutil.copy(ROOT / "tests" / "ways" / name, copy.folder / name)
    planted = copy.folder / "ways_planted.py"
    text = planted.read_text(encoding="utf-8")
    planted.write_text(
        f"{text}\n\n{shown('tests/ways/ways_planted.py')}", encoding="utf-8"
    )
    run = copy(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_ways_matrix.py",
        "-k", "deterministic or every_row or right_rule",
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None
    assert int(passed[1]) == 3  # caught (and not without its row), and two of all ways


def test_the_example_and_its_twin_are_told_apart(copy):
    right = shown("examples/squared_relu.py")
    wrong = right.replace("grad_output * 2 * positive", "grad_output * positive")
    assert wrong != right
    (copy.folder / "squared_relu.py").write_text(right, encoding="utf-8")
    (copy.folder / "wrong.py").write_text(wrong, encoding="utf-8")
    entry = shown("tests/examples/expected.py")
    program = f"""
    import sys
    sys.path.insert(0, {str(ROOT / "tests" / "examples")!r})
    import expected, gradproof, squared_relu, torch, wrong
    example = eval({entry!r}, vars(expected))
    for size in range(3):
        for dtype in (torch.float64, torch.float32):
            inputs = example.draw(dtype, size)
            rule = getattr(squared_relu, example.target)
            assert torch.equal(rule.apply(*inputs), example.reference(*inputs))
            assert gradproof.check(rule, inputs).ok
            report = gradproof.check(getattr(wrong, example.target), inputs)
            assert report.findings[0].slug in example.slugs, report
    """
    run = copy("-c", textwrap.dedent(program))
    assert run.returncode == 0, run.stderr
    assert copy("-m", "gradproof", "check", "squared_relu.py").returncode == 0
    assert copy("-m", "gradproof", "check", "wrong.py").returncode == 1


def test_every_command_is_one():
    for words in [w for block in blocks(PLAIN, "sh") for w in commands(block)]:
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
        else:
            assert words[0] in ("pytest", "git")
            paths = [w for w in words[1:] if not w.startswith("-") and w != "diff"]
            assert all((ROOT / path).exists() for path in paths), words


def test_every_room_and_every_folder_of_tests_is_told():
    rooms = {
        w for row in table(TEXT, "room in `src/gradproof`") for w in code_in(row[0])
    }
    package = ROOT / "src" / "gradproof"
    assert {p.parent.name for p in package.glob("*/__init__.py")} <= rooms
    assert all((package / room).exists() for room in rooms)
    told = {w for row in table(TEXT, "folder or file") for w in code_in(row[0])}
    folders = {p for p in (ROOT / "tests").iterdir() if p.is_dir()}
    names = {f"tests/{p.name}/" for p in folders if not p.name.startswith(("_", "."))}
    assert names <= told
    assert all((ROOT / name).exists() for name in told)


def test_what_is_named_as_a_breach_exists():
    names = [name.partition(": ") for name, _ in breaches()]
    assert names
    part = TEXT.split("## Current breaches")[1]
    for path in code_in(part):
        if path.endswith(".py") and not path.startswith(("python", "tests")):
            assert (ROOT / "src" / "gradproof" / path).exists(), path
