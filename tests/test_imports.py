"""`import gradproof` must stay light: a testing tool lands in other people's programs."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Not numpy and rich, which are ours to use; all that a user may not have, or pays for.
HEAVY = ("torch", "jax", "jaxlib", "matplotlib", "jinja2", "scipy", "pytest")


def loaded_by(statement: str) -> set[str]:
    """Which of HEAVY a fresh interpreter has loaded after ``statement``."""
    code = (
        f"{statement}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_import_loads_no_framework():
    assert loaded_by("import gradproof; gradproof.check") == set()


@pytest.mark.parametrize("name", ["torch", "matplotlib"])
def test_the_test_above_can_fail(name):
    assert name in loaded_by(f"import gradproof, {name}")


def test_import_works_where_no_framework_is_installed():
    hide = (
        "import sys\n"
        "for name in ('torch', 'jax'):\n"
        "    sys.modules[name] = None\n"  # makes `import torch` raise ImportError
        "import gradproof\n"
        "assert gradproof.check and gradproof.arg\n"
        "assert gradproof.__version__\n"
    )
    subprocess.run([sys.executable, "-c", hide], check=True)
