"""Starting up loads no framework; explain and version answer without one."""

import subprocess
import sys

import pytest

from gradproof import __version__

COUNT = """
import sys
from gradproof.__main__ import main
try:
    main({argv!r})
except SystemExit:
    pass
print("torch" in sys.modules, file=sys.stderr)
"""


def loads_torch(*argv):
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(argv=list(argv))],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stderr.split()[-1] == "True"


@pytest.mark.parametrize("argv", [("--version",), ("explain",), ("check", "none.py")])
def test_no_framework_is_loaded(argv):
    assert not loads_torch(*argv)


def test_the_test_above_can_fail(write):
    write("ops.py", "import torch\n")
    assert loads_torch("check", "ops.py")


def test_the_version_is_printed(run):
    ran = run("--version")
    assert (ran.code, ran.out) == (0, f"gradproof {__version__}\n")


def test_explain_prints_a_page_and_lists_them_all(run):
    page = run("explain", "dropped-cotangent")
    assert page.code == 0
    assert "grad_output" in page.out
    listed = run("explain")
    assert listed.code == 0
    lines = listed.out.splitlines()
    assert any(line.startswith("dropped-cotangent ") for line in lines)
    assert any(line.startswith("kink ") for line in lines)


def test_the_list_fits_on_a_terminal_and_a_line_each_elsewhere(run, monkeypatch):
    import sys

    from gradproof.commands import explain
    from gradproof.diagnosis import pages

    assert len(run("explain").out.splitlines()) == len(pages.slugs())
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    narrow = explain._listed(pages.slugs())
    assert max(map(len, narrow.splitlines())) <= 80
    assert " ".join(narrow.split()) == " ".join(run("explain").out.split())


def test_a_page_is_in_ascii_where_the_terminal_is(process):
    ran = process("explain", "accumulates-in-place", PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert ran.out.isascii()
    assert "\\u" not in ran.out
    assert process("explain", "accumulates-in-place").out != ran.out


def test_a_name_that_is_like_no_other_gets_no_guess(run):
    assert run("explain", "zzz").sentence == (
        "there is no finding called zzz (gradproof explain lists them)"
    )


def test_explain_of_no_finding_offers_the_nearest(run):
    ran = run("explain", "Dropped Cotangnet")
    assert ran.code == 2
    assert ran.sentence == (
        "there is no finding called Dropped Cotangnet; did you mean dropped-cotangent? "
        "(gradproof explain lists them)"
    )
