"""Prints the files and functions of ``src`` that are longer than the house rules like.

    python tests/breaches.py

CONTRIBUTING.md lists them under "Current breaches".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FILE, FUNCTION = 400, 60
SRC = Path(__file__).resolve().parents[1] / "src"


def breaches() -> Iterator[tuple[str, int]]:
    """Path of each long file, path and name of each long function, and their lines."""
    for path in sorted(SRC.rglob("*.py")):
        text, shown = path.read_text(encoding="utf-8"), path.relative_to(SRC).as_posix()
        if text.count("\n") > FILE:
            yield shown, text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION:
                    yield f"{shown}: {node.name}", lines


if __name__ == "__main__":
    for name, lines in breaches():
        print(f"{lines:5}  {name}")
