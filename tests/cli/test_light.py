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


def test_explain_of_no_finding_offers_the_nearest(run):
    ran = run("explain", "Dropped Cotangnet")
    assert ran.code == 2
    assert ran.sentence == (
        "there is no finding called Dropped Cotangnet; did you mean dropped-cotangent? "
        "(gradproof explain lists them)"
    )
