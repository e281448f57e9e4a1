"""What a function's own text tells about its arguments. By syntax only; never a verdict.

Used to put the likelier guesses of inputs first; nothing here is needed for a guess.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

# Calls that take an index, labels or a mask: where among the arguments (receiver first).
_PLACES = {
    **dict.fromkeys(
        ("index_select", "gather", "index_add", "index_add_", "scatter", "scatter_",
         "scatter_add", "scatter_add_", "scatter_reduce", "index_copy", "index_copy_"),
        (2, "index"),
    ),
    "take": (1, "index"), "take_along_dim": (1, "index"), "bincount": (0, "index"),
    "embedding": (0, "index"), "one_hot": (0, "labels"), "nll_loss": (1, "labels"),
    "cross_entropy": (1, "labels"), "masked_fill": (1, "mask"), "where": (0, "mask"),
    "masked_fill_": (1, "mask"), "masked_select": (1, "mask"),
}  # fmt: skip
_AXES = frozenset({"dim", "axis", "dims"})
_TURNED = frozenset({"t", "T", "mT", "transpose"})


@dataclass
class Hints:
    """Facts by parameter name, as far as the text shows them.

    ``rank`` and ``last`` are exact numbers of axes and extents of the last axis;
    ``at_least`` and ``last_at_least`` lower bounds. ``kind`` is one of index, labels,
    permutation, mask, axis, count. ``words`` are values that a parameter is compared with.
    ``silent`` are parameters for which every ``return`` of backward says None.
    """

    names: tuple[str, ...] = ()
    rank: dict[str, int] = field(default_factory=dict)
    at_least: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    last_at_least: dict[str, int] = field(default_factory=dict)
    kind: dict[str, str] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)
    turned: set[str] = field(default_factory=set)
    silent: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()


def read_hints(source: str, names: tuple[str, ...]) -> Hints:
    """Hints on the parameters ``names`` from the text of a class or of a function."""
    hints = Hints(names=names)
    try:
        tree = ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError):
        return hints
    defined = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    backward = next((f for f in defined if f.name in ("backward", "vjp")), None)
    body = next((f for f in defined if f.name == "forward"), None)
    scope = body or next((f for f in defined if f is not backward), None)
    if scope is None:
        return hints
    for node in ast.walk(scope):
        _read(node, hints)
    hints.calls = frozenset(_called(scope))
    for part in filter(None, (scope, backward)):
        for node in ast.walk(part):
            _read_inverse(node, hints)
    if backward is not None:
        hints.silent = frozenset(_silent(backward, names))
        hints.calls |= {"conj"} & set(_called(backward))
    return hints


def _read(node: ast.AST, hints: Hints) -> None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        _read_unpacking(node.targets[0], node.value, hints)
    elif isinstance(node, ast.Subscript):
        _read_subscript(node, hints)
    elif isinstance(node, ast.Compare):
        _read_comparison(node, hints)
    elif isinstance(node, ast.Call):
        _read_call(node, hints)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        _read_product(node.right, hints)


def _read_unpacking(target: ast.expr, value: ast.expr, hints: Hints) -> None:
    """``b, t, d = x.shape`` has three axes; ``x, y = p.unbind(-1)`` a last of two."""
    if not isinstance(target, ast.Tuple):
        return
    starred = any(isinstance(item, ast.Starred) for item in target.elts)
    inner = value.func if isinstance(value, ast.Call) else value
    if not isinstance(inner, ast.Attribute):
        return
    name, count = _name(inner.value, hints), len(target.elts)
    if name and inner.attr in ("shape", "size"):
        if starred:
            hints.at_least[name] = max(hints.at_least.get(name, 0), count - 1)
        else:
            hints.rank[name] = count
    if name and inner.attr == "unbind" and not starred:
        hints.last[name] = count
    if name and inner.attr == "chunk" and not starred:
        hints.last[name] = 2 * count


def _read_subscript(node: ast.Subscript, hints: Hints) -> None:
    index = node.slice
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    for item in items:
        if (name := _name(item, hints)) and _name(node.value, hints) != name:
            hints.kind.setdefault(name, "index")
    owner = node.value
    if isinstance(owner, ast.Attribute) and owner.attr == "shape":
        axis = _whole(index)
        if (name := _name(owner.value, hints)) and axis is not None:
            least = axis + 1 if axis >= 0 else -axis
            hints.at_least[name] = max(hints.at_least.get(name, 0), least)
        return
    name = _name(owner, hints)
    if not name:
        return
    dots = any(isinstance(i, ast.Constant) and i.value is ... for i in items)
    added = sum(isinstance(i, ast.Constant) and i.value is None for i in items)
    if not dots:
        least = len(items) - added
        hints.at_least[name] = max(hints.at_least.get(name, 0), least)
    final = _whole(items[-1])
    if final is not None and final >= 0 and (dots or len(items) > 1):
        seen = hints.last_at_least.get(name, 0)
        hints.last_at_least[name] = max(seen, final + 1)


def _read_comparison(node: ast.Compare, hints: Hints) -> None:
    name = _name(node.left, hints)
    for operand in node.comparators:
        constants = operand.elts if isinstance(operand, ast.Tuple) else [operand]
        for item in constants:
            if name and isinstance(item, ast.Constant) and isinstance(item.value, str):
                hints.words.setdefault(name, []).append(item.value)
        owner = node.left.func if isinstance(node.left, ast.Call) else node.left
        number = _whole(operand)
        counted = isinstance(owner, ast.Attribute) and owner.attr in ("ndim", "dim")
        of = _name(getattr(owner, "value", owner), hints) if counted else ""
        if of and number is not None:
            hints.at_least[of] = max(hints.at_least.get(of, 0), number)


def _read_call(node: ast.Call, hints: Hints) -> None:
    for word in node.keywords:
        if word.arg in _AXES:
            _mark(word.value, "axis", hints)
    called = _last_name(node.func)
    arguments = list(node.args)
    if isinstance(node.func, ast.Attribute) and not _is_module(node.func):
        arguments.insert(0, node.func.value)
    if called == "range":
        for item in arguments:
            _mark(item, "count", hints)
    if called in _PLACES:
        place, kind = _PLACES[called]
        _mark(arguments[place] if place < len(arguments) else None, kind, hints)
    if called in ("matmul", "mm", "bmm") and len(arguments) > 1:
        _read_product(arguments[1], hints)
    if called == "linear" and len(arguments) > 1:
        hints.turned |= {_name(arguments[1], hints)} - {""}


def _read_inverse(node: ast.AST, hints: Hints) -> None:
    """``perm.argsort()``: an index that is turned round so is a permutation."""
    if not isinstance(node, ast.Call) or _last_name(node.func) != "argsort":
        return
    turned = node.args[:1]
    if isinstance(node.func, ast.Attribute) and not _is_module(node.func):
        turned = [node.func.value]
    for name in (_name(each, hints) for each in turned):
        if hints.kind.get(name) == "index":
            hints.kind[name] = "permutation"


def _mark(node: ast.expr | None, kind: str, hints: Hints) -> None:
    axes = 0
    while kind == "index" and isinstance(
        node, ast.Subscript | ast.Call | ast.Attribute
    ):  # t[:, None], t.long()
        if isinstance(node, ast.Subscript):
            axes = _axes(node.slice)
        node = node.func if isinstance(node, ast.Call) else node.value
    if node is not None and (name := _name(node, hints)):
        hints.kind.setdefault(name, kind)
        if axes:
            hints.rank.setdefault(name, axes)


def _axes(index: ast.expr) -> int:
    """How many axes ``[:, None]`` says there are; 0 where it picks from one."""
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    kept = [isinstance(item, ast.Slice) for item in items]
    added = [isinstance(i, ast.Constant) and i.value is None for i in items]
    plain = any(added) and all(k or a for k, a in zip(kept, added, strict=True))
    return sum(kept) if plain else 0


def _read_product(right: ast.expr, hints: Hints) -> None:
    """``x @ w.t()``: w has the axes of a linear layer's weight."""
    inner = right.func if isinstance(right, ast.Call) else right
    if isinstance(inner, ast.Attribute) and inner.attr in _TURNED:
        hints.turned |= {_name(inner.value, hints)} - {""}


def _silent(backward: ast.FunctionDef, names: tuple[str, ...]) -> Iterator[str]:
    """Parameters whose place in every return of ``backward`` is the word None."""
    returned = [n.value for n in ast.walk(backward) if isinstance(n, ast.Return)]
    tuples = [v.elts if isinstance(v, ast.Tuple) else [v] for v in returned if v]
    for place, name in enumerate(names):
        said = [items[place] for items in tuples if place < len(items)]
        nothing = [isinstance(s, ast.Constant) and s.value is None for s in said]
        if said and len(said) == len(tuples) and all(nothing):
            yield name


def _called(scope: ast.AST) -> Iterator[str]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Call):
            yield _last_name(node.func)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield "@"


def _name(node: ast.AST, hints: Hints) -> str:
    """The parameter that ``node`` is, or ""."""
    found = node.id if isinstance(node, ast.Name) else ""
    return found if found in hints.names else ""


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_module(node: ast.AST) -> bool:
    """Whether ``node`` is ``torch.f``, ``np.f``, ``F.f``, ``torch.nn.functional.f``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "np", "numpy", "F", "nn")


def _whole(node: ast.AST) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _whole(node.operand)
        return None if inner is None else -inner
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
