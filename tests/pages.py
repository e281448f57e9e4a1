"""Reading the pages at the top of the repository as tests: blocks, tables, their output."""

from __future__ import annotations

import ast
import linecache
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
SAYS = re.compile(r"\s+# -> (.*)$", re.MULTILINE)
# Numbers below this are errors and limits: another processor may double them.
SMALL = 1e-5


def blocks(text: str, *kinds: str) -> list[str]:
    return [body for name, body in FENCE.findall(text) if name in kinds]


def commands(block: str) -> list[list[str]]:
    """The commands of a ``sh`` block, as words, without their comments."""
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [words for words in lines if words]


def sessions(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a ``console`` block, each with the output that follows it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def alike(a: float, b: float) -> bool:
    """Whether two printed numbers tell the same."""
    if abs(a) < SMALL and abs(b) < SMALL:
        return abs(a) <= 30 * abs(b) and abs(b) <= 30 * abs(a)
    return abs(a - b) <= 2e-3 * max(abs(a), abs(b))


def same(printed: str, expected: str) -> bool:
    """Whether a text is as expected, its numbers as near as ``alike`` asks.

    … in what is expected stands for any text within a line.
    """
    mine, theirs = (NUMBER.sub("#", t).split() for t in (printed, expected))
    if len(mine) != len(theirs):
        return False
    for got, want in zip(mine, theirs, strict=True):
        if got != want and want != "…":
            return False
    if "…" in theirs:
        return True
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True)
    return all(alike(float(a), float(b)) for a, b in pairs)


def run_block(code: str, namespace: dict[str, object], name: str) -> list[str]:
    """Execute a block; what ``# -> `` says of a value and is not so."""
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    said = {
        code.count("\n", 0, match.start()) + 1: match[1].strip()
        for match in SAYS.finditer(code)
    }
    wrong: list[str] = []

    def note(line: int, value: object) -> None:
        if not same(str(value), said[line]):
            wrong.append(f"line {line}: {value} and not {said[line]}")

    tree = ast.parse(code, name)
    noted = _Noting(said).visit(tree)
    ast.fix_missing_locations(noted)
    namespace["_note_"] = note
    exec(compile(noted, name, "exec"), namespace)
    missed = set(said) - noted_lines(noted)
    return wrong + [f"line {line}: nothing is compared" for line in missed]


class _Noting(ast.NodeTransformer):
    """Hands the value of every expression that ``# -> `` speaks of to ``_note_``."""

    def __init__(self, said: dict[int, str]) -> None:
        self.said = said

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        line = node.end_lineno or 0
        if line in self.said:
            call = ast.Name("_note_", ast.Load())
            node.value = ast.Call(call, [ast.Constant(line), node.value], [])
        return node


def noted_lines(tree: ast.AST) -> set[int]:
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "_note_"
    }


def rewritten(
    text: str, outputs: Callable[[str], str], printed: Callable[[str], str]
) -> str:
    """The page with all output as it is now.

    Of a ``console`` block as ``outputs(command)`` says; of a ``text`` block, which holds
    what the ``python`` block above it prints, as ``printed(code)`` says.
    """
    code = ""

    def block(match: re.Match[str]) -> str:
        nonlocal code
        if match[1] == "text":
            return f"```text\n{printed(code)}```"
        code = match[2] if match[1] == "python" else code
        if match[1] != "console":
            return match[0]
        body = "".join(
            f"$ {command}\n{outputs(command)}" for command, _ in sessions(match[2])
        )
        return f"```console\n{body}```"

    return FENCE.sub(block, text)


def table(text: str, head: str) -> list[list[str]]:
    """The rows of the table whose first column is called ``head``."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |"))
    out = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        out.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return out


def code_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)
