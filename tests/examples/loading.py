"""Ways of loading an example: as a file, as a bare string, under other names."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def path_of(name, *, wrong=False):
    return FOLDER / "wrong" / f"{name}.py" if wrong else FOLDER / f"{name}.py"


def from_file(name, *, wrong=False):
    """The module, imported from its file: its source can be read."""
    kind = "wrong" if wrong else "right"
    spec = importlib.util.spec_from_file_location(
        f"{kind}_{name}", path_of(name, wrong=wrong)
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # inspect finds a class's source by way of this
    spec.loader.exec_module(module)
    return module


def from_string(text):
    """The module, executed from ``text``: no source can be found for it."""
    namespace = {"__name__": "nowhere"}
    exec(compile(text, "<no file>", "exec"), namespace)
    return SimpleNamespace(**namespace)


class _Renamer(ast.NodeTransformer):
    """Gives every name that the file binds another one, and drops its prose."""

    def __init__(self, tree):
        fresh = (f"a{i}" for i in itertools.count())
        self.names = {}
        self.kept = {}
        for node in ast.walk(tree):
            bound = None
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                bound = node.name
            elif isinstance(node, ast.arg):
                bound = node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound = node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self.kept.setdefault(node.attr, next(fresh))
            if bound not in (None, "forward", "backward"):
                self.names.setdefault(bound, next(fresh))

    def visit_ClassDef(self, node):
        self.generic_visit(node)
        node.name = self.names[node.name]
        node.body = without_docstring(node.body)
        return node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.name = self.names.get(node.name, node.name)
        node.body = without_docstring(node.body)
        return node

    def visit_arg(self, node):
        node.arg = self.names[node.arg]
        return node

    def visit_Name(self, node):
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_Attribute(self, node):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if owner == "ctx" or owner[:1].isupper():  # the user's own, not torch's
            node.attr = self.kept.get(node.attr, node.attr)
        self.generic_visit(node)
        return node


def without_docstring(body):
    first = body[0]
    prose = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if prose else body


def renamed(text):
    """``text`` with every name that it binds changed, and the map from old to new."""
    tree = ast.parse(text)
    renamer = _Renamer(tree)
    tree.body = without_docstring(tree.body)
    return ast.unparse(ast.fix_missing_locations(renamer.visit(tree))), renamer.names
