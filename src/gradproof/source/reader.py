"""One pass over a parsed text: signatures, returns, and what is done where."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from gradproof.source.records import Facts, Gradient, Mention
from gradproof.source.syntax import (
    Function,
    Parsed,
    alias,
    base,
    bindings,
    branches,
    done,
    elements,
    is_none,
    last_name,
    own,
    parameters,
    parse,
    returned,
    unread,
    written,
)
from gradproof.verdict import Source, Span

_CONTEXT = {"ctx", "_ctx", "context", "self", "cls"}
_SAVED = {"saved_tensors", "saved_variables", "saved_for_forward"}

# A backward often hands on to a helper beside it; that many are followed.
_HELPERS = 2
_Elements: TypeAlias = list[ast.expr] | None


@lru_cache(maxsize=256)
def facts(source: Source) -> Facts:
    """The facts of a source text; empty ones where it is missing or does not parse."""
    lines = tuple(source.text.splitlines())
    empty = Facts(source, lines)
    if not source.text.strip():
        return empty
    try:
        parsed = parse(source.text)
        return empty if parsed is None else _Reader(empty, parsed).facts()
    except (RecursionError, MemoryError):  # generated code nests without bound
        return empty


class _Reader:
    """One pass over a parsed text."""

    def __init__(self, empty: Facts, parsed: Parsed) -> None:
        self.empty = empty
        self.source = empty.source
        self.lines = empty.lines
        self.parsed = parsed
        self.home = self._home()
        self.backward = self._function(self.source.backward)
        self.forward = self._function(self.source.forward)
        if self.backward is None:
            lambdas = [n for n in ast.walk(parsed.tree) if isinstance(n, ast.Lambda)]
            if self.source.kind == "pair" and len(lambdas) == 1:
                self.backward = lambdas[0]
        if self.forward is self.backward:
            self.forward = None

    def facts(self) -> Facts:
        """Everything that can be said."""
        inputs = self._inputs()
        out = replace(
            self.empty,
            inputs=inputs,
            forward_span=self._header(self.forward),
            backward_span=self._header(self.backward),
            saved=self._saved(),
            methods=self._methods(),
            outputs=self._outputs(),
        )
        mentions = self._mentions(self.forward, "forward", set(inputs))
        rule = self.backward
        if rule is not None:
            parameters = self._cotangents(rule, inputs)
            names = {a.arg for a in parameters}
            mentions += self._mentions(rule, "backward", names)
            gradients, returns = self._gradients(rule, inputs)
            out = replace(
                out,
                cotangents=tuple(a.arg for a in parameters),
                cotangent_spans=tuple(self.span(a) for a in parameters),
                unread_cotangents=tuple(
                    self.span(a) for a in parameters if unread(rule, a.arg)
                ),
                unused_saved=self._unused_saved(rule),
                unpacked=tuple(n.id for n in _unpacked(rule)),
                gradients=gradients,
                returns=returns,
                decorators=tuple(
                    last_name(d) for d in getattr(rule, "decorator_list", ())
                ),
            )
        mentions += self._conditions(self._function("vmap"), "vmap")
        return replace(out, mentions=_with_reads(mentions, rule, self))

    # ------------------------------------------------------------------ where things are

    def _home(self) -> ast.AST:
        """The class that is under test, or the whole text."""
        classes = [n for n in ast.walk(self.parsed.tree) if isinstance(n, ast.ClassDef)]
        names = set(re.split(r"\W+", self.source.name))
        named = [c for c in classes if c.name in names]
        if not named and len(classes) != 1:
            return self.parsed.tree
        return (named or classes)[0]

    def _function(self, name: str) -> Function | None:
        name = name.rpartition(".")[2]
        for place in (self.home, self.parsed.tree):
            for node in ast.walk(place):
                if (
                    isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                    and node.name == name
                ):
                    return node
                if (
                    isinstance(node, ast.Assign)
                    and isinstance(node.value, ast.Lambda)
                    and any(base(t) == name for t in node.targets)
                ):
                    return node.value
        return None

    def _is_method(self, function: Function) -> bool:
        return isinstance(self.home, ast.ClassDef) and function in self.home.body

    def _point(self, line: int, column: int) -> tuple[int, int]:
        """Line of the file and column of the text, from a position of the tree."""
        rows = self.parsed.rows
        row = rows[line - 1] if line <= len(rows) else ""
        signs = len(row.encode()[:column].decode(errors="ignore"))
        if line == 1:
            signs += self.parsed.right
        return self.source.line + line - 1 + self.parsed.down, max(signs, 0)

    def span(self, node: ast.AST) -> Span:
        """Where a node stands in the user's file."""
        line, start = self._point(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        stop = self._point(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        text = self.empty.line(line)
        if stop[0] == line:
            return Span(self.source.file, line, start, stop[1], text)
        return Span(self.source.file, line, start, len(text.rstrip()), text, stop=stop)

    def _header(self, function: Function | None) -> Span | None:
        """``def backward(ctx, g)``, or the lambda."""
        if function is None:
            return None
        whole = self.span(function)
        if isinstance(function, ast.Lambda):
            return replace(whole, stop=None)
        end = len(whole.text.rstrip().removesuffix(":").rstrip())
        body = self.span(function.body[0])
        if body.line == whole.line:
            end = len(whole.text[: body.start].rstrip().removesuffix(":").rstrip())
        return replace(whole, end=end, stop=None)

    # ------------------------------------------------------------------------- signatures

    def _inputs(self) -> tuple[str, ...]:
        function = self.forward
        if function is None:
            # The rule of a raw pair names the inputs after its cotangent.
            if self.source.kind != "pair" or self.backward is None:
                return ()
            return _named(self.backward, 1)
        names = parameters(function)
        separate = self._function("setup_context") is not None
        if names and not (self._is_method(function) and separate):
            first = names[0].arg
            rule = parameters(self.backward) if self.backward is not None else []
            same = bool(rule) and rule[0].arg == first and self._is_method(function)
            if first in _CONTEXT or same:
                return _named(function, 1)
        return _named(function, 0)

    def _cotangents(self, rule: Function, inputs: tuple[str, ...]) -> list[ast.arg]:
        names = parameters(rule)
        if names and (self._is_method(rule) or names[0].arg in _CONTEXT):
            return names[1:]
        # A raw pair is called as vjp(cotangent, *inputs); where the names of the
        # inputs are known, the cotangents are the others.
        shared = {name.lstrip("*") for name in inputs}
        others = [a for a in names if a.arg not in shared]
        return others if len(others) < len(names) else names[:1]

    def _saved(self) -> tuple[str, ...]:
        setup = self._function("setup_context")
        return tuple(
            ast.unparse(argument)
            for function in (self.forward, setup)
            if function is not None
            for node in own(function)
            if isinstance(node, ast.Call) and last_name(node) == "save_for_backward"
            for argument in node.args
        )

    def _methods(self) -> tuple[tuple[str, Span, tuple[Span, ...]], ...]:
        """The other rules of a class: name, header and what is returned."""
        out = []
        for name in ("jvp", "vmap"):
            method = self._function(name)
            header = self._header(method)
            if method is not None and header is not None and self._is_method(method):
                out.append((name, header, tuple(map(self.span, returned(method)))))
        return tuple(out)

    def _conditions(self, function: Function | None, within: str) -> list[Mention]:
        return [
            Mention(f"branch-{kind}", within, self.span(test), ast.unparse(test))
            for node in (own(function) if function is not None else ())
            for test, kind in branches(node)
        ]

    def _unused_saved(self, rule: Function) -> tuple[Span, ...]:
        read = {
            n.id
            for n in ast.walk(rule)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        return tuple(self.span(name) for name in _unpacked(rule) if name.id not in read)

    def _outputs(self) -> tuple[str, ...]:
        """What the forward returns, where it returns at one place."""
        values = returned(self.forward)
        if len(values) != 1:
            return ()
        parts = elements(values[0], {}) or [values[0]]
        return tuple(map(ast.unparse, parts))

    # --------------------------------------------------------------------------- gradients

    def _gradients(
        self, rule: Function, inputs: tuple[str, ...]
    ) -> tuple[tuple[Gradient, ...], tuple[Span, ...]]:
        owners: dict[int, Function] = {}  # the function that an element is written in

        def given(function: Function, value: ast.expr, depth: int) -> _Elements:
            def called(call: ast.Call) -> _Elements:
                helper = self._function(last_name(call)) if depth else None
                values = returned(helper) if helper not in (None, function) else []
                if helper is None or len(values) != 1:
                    return None
                return given(helper, values[0], depth - 1)

            out = elements(value, bindings(function, value.lineno), called)
            for element in out or ():
                owners.setdefault(id(element), function)
            return out

        values = returned(rule)
        gradients = []
        for value in values:
            parts = given(rule, value, _HELPERS)
            if parts is None:
                if len(inputs) > 1 or any(name.startswith("*") for name in inputs):
                    continue
                parts = [value]
            gradients += [
                self._gradient(owners.get(id(part), rule), i, part)
                for i, part in enumerate(parts)
            ]
        return tuple(gradients), tuple(self.span(v) for v in values)

    def _gradient(self, owner: Function, i: int, element: ast.expr) -> Gradient:
        bound = bindings(owner, element.lineno).get(ast.unparse(element), [])
        given = [value for value in bound if not is_none(value)]
        none = is_none(element) or (bool(bound) and not given)
        origin = (given or bound or [element])[-1]
        return Gradient(i, self.span(element), self.span(origin), none)

    # ---------------------------------------------------------------------------- mentions

    def _mentions(
        self, function: Function | None, within: str, watched: set[str]
    ) -> list[Mention]:
        """What one function does; ``watched`` are the names of tensors of others."""
        if function is None:
            return []
        kind = "writes-cotangent" if within == "backward" else "writes-input"
        memory = {name.lstrip("*"): kind for name in watched}
        first = [a.arg for a in parameters(function)[:1]]
        context = next((name for name in first if name not in memory), "")
        local = _local_names(function)
        out = self._conditions(function, within)
        for node in own(function):
            out += [Mention(k, within, self.span(node), what) for k, what in done(node)]
            for target in written(node):
                if (
                    isinstance(target, ast.Name)
                    and isinstance(node, ast.Assign)
                    and target.id in local
                ):
                    _rebind(memory, target.id, node.value)
                    continue
                subject = base(target)
                if subject in memory:
                    out.append(
                        Mention(memory[subject], within, self.span(node), subject)
                    )
                elif subject == context and not isinstance(target, ast.Attribute):
                    continue
                elif subject and (subject == context or subject not in local):
                    state = subject in ("self", "cls") or subject != context
                    what = "writes-state" if state else "context"
                    text = ast.unparse(target)
                    out.append(Mention(what, within, self.span(target), text))
                elif isinstance(target, ast.Subscript):
                    out.append(Mention("fills", within, self.span(node), subject))
        return out


def _named(function: Function, start: int) -> tuple[str, ...]:
    """The names of the parameters from ``start`` on, a variadic one with its star."""
    star = function.args.vararg
    return tuple(
        f"*{a.arg}" if a is star else a.arg for a in parameters(function)[start:]
    )


def _unpacked(rule: Function) -> list[ast.Name]:
    """The names that a backward gives to what was saved, but for those with a dash."""
    return [
        name
        for node in own(rule)
        if isinstance(node, ast.Assign)
        and any(isinstance(n, ast.Attribute) and n.attr in _SAVED
                for n in ast.walk(node.value))
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and not name.id.startswith("_")
    ]  # fmt: skip


def _local_names(function: Function) -> set[str]:
    """Names that a function binds itself, those that it declares global left out."""
    nodes = own(function)
    shared = {
        name
        for node in nodes
        if isinstance(node, (ast.Global, ast.Nonlocal))
        for name in node.names
    }
    bound = {
        n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return (bound | {a.arg for a in parameters(function)}) - shared


def _rebind(memory: dict[str, str], name: str, value: ast.expr) -> None:
    """Follow an assignment: what ``name`` stands for from here on."""
    if any(isinstance(n, ast.Attribute) and n.attr in _SAVED for n in ast.walk(value)):
        memory[name] = "writes-saved"
        return
    other = alias(value, memory)
    if other:
        memory[name] = memory[other]
    else:
        memory.pop(name, None)


def _with_reads(
    mentions: list[Mention], rule: Function | None, reader: _Reader
) -> tuple[Mention, ...]:
    """The mentions, and where the backward reads state that something here writes."""
    state = {m.subject for m in mentions if m.kind == "writes-state"}
    state |= {re.split(r"\[", subject)[0] for subject in state}
    out = list(mentions)
    for node in own(rule) if rule is not None and state else []:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(
            node.ctx, ast.Load
        ):
            text = ast.unparse(node)
            if text in state:
                span = reader.span(node)
                out.append(Mention("reads-state", "backward", span, text))
    return tuple(out)
