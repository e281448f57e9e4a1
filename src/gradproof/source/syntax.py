"""Questions to Python's syntax tree, asked by the reader."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass

_REDUCTIONS = {
    "sum", "mean", "prod", "amax", "amin", "max", "min", "norm", "var", "std",
    "logsumexp", "softmax", "log_softmax", "cumsum", "nansum", "sum_to_size", "einsum",
}  # fmt: skip
_RANDOM = {
    "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm",
    "bernoulli", "multinomial", "normal", "poisson", "uniform", "standard_normal",
    "bernoulli_", "uniform_", "normal_", "exponential_", "random_", "dropout",
    "manual_seed", "default_rng", "permutation", "shuffle", "choice",
}  # fmt: skip
_CASTS = {
    "float", "half", "bfloat16", "double", "to", "type", "type_as", "astype",
    "float32", "float16",
}  # fmt: skip
_RAW_MEMORY = {"empty", "empty_like", "new_empty", "empty_strided"}
# Calls whose result may be the same memory as what they are called on.
_ALIASES = {
    "contiguous", "view", "reshape", "t", "T", "mT", "transpose", "permute", "flatten",
    "unflatten", "squeeze", "unsqueeze", "expand", "expand_as", "view_as", "detach",
    "data", "to", "unbind", "narrow", "select", "movedim", "ravel",
}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Parsed:
    """A tree, and how its positions become those of the text it was cut from."""

    tree: ast.AST
    rows: tuple[str, ...]
    down: int = 0  # lines of the text above the first row
    right: int = 0  # columns of the text before the first row


def parse(text: str) -> Parsed | None:
    """A tree of ``text``, indented or not, or of the lambda in it; None otherwise."""
    indented = text.lstrip("\r\n")[:1] in (" ", "\t")
    # An indented text is parsed as the body of a block, so that its columns stay.
    tries = [("if True:\n" + text, -1, 0)] if indented else [(text, 0, 0)]
    at = text.find("lambda")
    if at >= 0:
        # A lambda comes with the rest of its line; the longest tail that parses is it.
        start = text.rfind("\n", 0, at) + 1
        above = text.count("\n", 0, at)
        ends = [m.start() for m in re.finditer(r"[,)\]}\n]|$", text) if m.start() > at]
        tries += [
            (f"({text[at:end]}\n)", above, at - start - 1)
            for end in reversed(ends[:200])
        ]
    for code, down, right in tries:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's escapes and comparisons
            try:
                return Parsed(ast.parse(code), tuple(code.splitlines()), down, right)
            except (SyntaxError, ValueError):
                continue
    return None


def last_name(node: ast.AST) -> str:
    """``once_differentiable`` of ``@torch.autograd.function.once_differentiable()``."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def base(node: ast.AST) -> str:
    """The name that a chain of attributes, subscripts and calls starts from."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def parameters(function: Function) -> list[ast.arg]:
    """All parameters but ``**keywords``, in the order of the signature."""
    a = function.args
    return [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs]


def own(function: Function) -> list[ast.AST]:
    """Every node of a function, those of functions inside it left out, in order."""
    body = function.body if isinstance(function.body, list) else [function.body]
    out: list[ast.AST] = []
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        out.append(node)
        if not isinstance(node, Function):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return out


def returned(function: Function | None) -> list[ast.expr]:
    """The expressions that a function returns, in order; a bare return gives none."""
    if function is None:
        return []
    if isinstance(function, ast.Lambda):
        return [function.body]
    found = (n.value for n in own(function) if isinstance(n, ast.Return))
    return [value for value in found if value is not None]


def is_none(node: ast.AST) -> bool:
    """Whether a node is the constant None."""
    return isinstance(node, ast.Constant) and node.value is None


def unread(rule: Function, name: str) -> bool:
    """Whether a parameter is never read, or overwritten before it is."""
    nodes = [n for n in ast.walk(rule) if isinstance(n, ast.Name) and n.id == name]
    reads = [n.lineno for n in nodes if isinstance(n.ctx, ast.Load)]
    if not reads:
        return True
    if isinstance(rule, ast.Lambda):
        return False
    for node in rule.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            return min(reads) > (node.end_lineno or node.lineno)
    return False


def bindings(rule: Function, line: int) -> dict[str, list[ast.expr]]:
    """What each name, attribute or item was assigned, in order, before ``line``."""
    out: dict[str, list[ast.expr]] = {}
    for node in own(rule):
        if not isinstance(
            node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)
        ):
            continue
        if node.lineno >= line or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, (ast.Tuple, ast.List)):
                values = elements(node.value, {})
                if values is None or len(values) != len(target.elts):
                    values = [node.value] * len(target.elts)
                pairs = list(zip(target.elts, values, strict=True))
            for name, value in pairs:
                out.setdefault(ast.unparse(name), []).append(value)
                if isinstance(name, ast.Subscript):
                    out.setdefault(ast.unparse(name.value), []).append(value)
    return out


def elements(
    value: ast.expr,
    bound: dict[str, list[ast.expr]],
    called: Callable[[ast.Call], list[ast.expr] | None] = lambda call: None,
) -> list[ast.expr] | None:
    """The elements of a tuple as it is written, or None where it is not one.

    ``bound`` is what names stand for; ``called`` the elements that a call returns.
    """
    if isinstance(value, (ast.Tuple, ast.List)):
        out: list[ast.expr] = []
        for element in value.elts:
            if not isinstance(element, ast.Starred):
                out.append(element)
                continue
            inner = elements(element.value, bound, called)
            if inner is None:
                break  # the positions after it are not known
            out += inner
        return out
    if isinstance(value, ast.Name) and bound.get(value.id):
        return elements(bound[value.id][-1], {}, called)
    if isinstance(value, ast.Call):
        if last_name(value) in ("tuple", "list") and len(value.args) == 1:
            return elements(value.args[0], bound, called)
        return called(value)
    if isinstance(value, ast.BinOp):
        left = elements(value.left, bound, called)
        if isinstance(value.op, ast.Add):
            right = elements(value.right, bound, called)
            return None if left is None or right is None else left + right
        times = getattr(value.right, "value", None)
        if isinstance(value.op, ast.Mult) and left and type(times) is int:
            return left * min(times, 64)
    return None


def written(node: ast.AST) -> list[ast.expr]:
    """What a statement or call writes to."""
    if isinstance(node, ast.Assign):
        flat: list[ast.expr] = []
        for target in node.targets:
            tuple_ = isinstance(target, (ast.Tuple, ast.List))
            flat += target.elts if tuple_ else [target]  # type: ignore[attr-defined]
        return flat
    if isinstance(node, ast.AugAssign):
        return [node.target]
    if isinstance(node, ast.Call):
        out = [k.value for k in node.keywords if k.arg == "out"]
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        in_place = name.endswith("_") and not name.startswith("_")
        if in_place and name != "requires_grad_":
            out.append(node.func.value)  # type: ignore[attr-defined]
        return out
    return []


def alias(value: ast.expr, names: Collection[str]) -> str:
    """The one of ``names`` whose memory ``value`` may be under another name, or ""."""
    while True:
        if isinstance(value, ast.Name):
            return value.id if value.id in names else ""
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func
        elif (
            isinstance(value, ast.Attribute) and value.attr in _ALIASES
        ) or isinstance(value, ast.Subscript):
            value = value.value
        else:
            return ""


def done(node: ast.AST) -> list[tuple[str, str]]:
    """What a node does that a mistake may come of, and to what."""
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return [("detach", base(node))]
    if not isinstance(node, ast.Call):
        return []
    name = last_name(node)
    subject = base(node)
    kinds = {
        "contiguous": "contiguous", "detach": "detach", "detach_": "detach",
        "no_grad": "no-grad", "data_ptr": "pointer", "mark_dirty": "dirty",
        "save_for_backward": "save", "as_strided": "pointer",
        "set_materialize_grads": "materialize", "mark_non_differentiable": "cut-off",
    }  # fmt: skip
    if name in kinds:
        return [(kinds[name], subject)]
    if name == "apply" and isinstance(node.func, ast.Attribute):
        return [("applies", ast.unparse(node.func.value))]
    if name in _REDUCTIONS:
        axes = [k.value for k in node.keywords if k.arg in ("dim", "axis")]
        axes += [a for a in node.args if isinstance(a, (ast.Constant, ast.UnaryOp))]
        return [("reduction", ast.unparse(axes[0]) if axes else "")]
    if name in _RANDOM:
        return [("random", name)]
    if name in _RAW_MEMORY:
        return [("raw-memory", name)]
    return (
        [("cast", ast.unparse(node.args[0]) if node.args else name)]
        if (name in _CASTS)
        else []
    )


_BRANCHES = {
    "dtype": {"dtype", "is_floating_point", "is_complex", "finfo"},
    "mode": {"is_grad_enabled", "requires_grad", "grad_fn", "is_inference_mode_enabled"},
    "needs": {"needs_input_grad"},
    "alias": {"data_ptr", "is_set_to", "untyped_storage"},
    "size": {"shape", "size", "numel", "ndim", "dim", "len"},
}  # fmt: skip


def branches(node: ast.AST) -> list[tuple[ast.expr, str]]:
    """The test of a condition, beside each kind of thing that it asks after.

    "dtype", "mode" (is a graph recorded), "needs" (which inputs need a gradient), "alias"
    (are two tensors one), "size", and "truth": a bare name or item, no comparison.
    """
    if not isinstance(node, (ast.If, ast.IfExp)):
        return []
    test = node.test
    names = {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    names |= {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    kinds = [kind for kind, words in _BRANCHES.items() if names & words]
    same = isinstance(test, ast.Compare) and isinstance(
        test.ops[0], (ast.Is, ast.IsNot)
    )
    if same and not any(map(is_none, (test.left, *test.comparators))):  # type: ignore[attr-defined]
        kinds.append("alias")
    if isinstance(test, (ast.Name, ast.Subscript)):
        kinds.append("truth")
    return [(test, kind) for kind in dict.fromkeys(kinds)]
