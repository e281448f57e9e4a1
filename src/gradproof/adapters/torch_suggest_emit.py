"""A backward as text: names, statements, and what the forward has to save for it."""

from __future__ import annotations

import builtins
import inspect
import keyword
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from gradproof.adapters.torch_suggest_expr import (
    ADD,
    MUL,
    NAME,
    OP,
    SHAPE,
    SIZE,
    CannotSay,
    E,
    children,
)
from gradproof.adapters.torch_suggest_trace import Trace

WIDTH = 84  # of a line of the method, its own indentation not counted
# How tightly each sign binds; what is called binds tightest.
_BINDS = {"|": 1, "&": 2, "==": 0, "!=": 0, ">": 0, ">=": 0, "<": 0, "<=": 0,
          "+": 4, "-": 4, "*": 5, "/": 5, "@": 5, "//": 5, "%": 5, "neg": 6,
          "**": 7}  # fmt: skip
_TIGHT = 9
_WORDS = {
    "and": "inside", "bitwise_and": "both", "bitwise_or": "either", "sum": "total", "max": "top", "min": "bottom", "pow": "power", "abs": "size",
    "index_put": "spread", "vector_norm": "norm", "getitem": "part", "mul": "product",
    "add": "total", "sub": "apart", "div": "ratio", "matmul": "product", "pull": "pulled",
    "zeros_like": "zeros", "new_zeros": "zeros", "sum_to_size": "total", "amax": "top", "amin": "bottom", "top_of_all": "top", "eq": "won", "flatten": "rows",
}  # fmt: skip
_BUILTIN = frozenset(vars(builtins))
_CHEAP = {"mT", "dtype", "device", "T", "t", "unsqueeze", "numel", "conj", "real"}


@dataclass(eq=False)
class Method:
    """One backward, being written."""

    trace: Trace
    cls: Any
    grads: tuple[E, ...]  # the names of the cotangents, one for each output
    results: dict[str, Any]  # by argument; None for those without a gradient
    names: dict[E, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)  # arguments to be saved besides
    kept: dict[str, str] = field(default_factory=dict)  # ctx attribute -> expression
    available: dict[E, str] = field(default_factory=dict)
    uses: Counter[E] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)
    statements: set[E] = field(default_factory=set)
    between: bool = False  # whether a saved intermediate is used

    def text(self) -> str:
        """The whole method, with its decorators."""
        self._find_available()
        roots = self._roots()
        for e in roots:
            self._count(e)
        self._choose(roots)
        returned = [self._returned(name) for name in self.trace.names]
        body = [*self._unpacked(), *self.lines]
        body.append(f"return {', '.join(returned)}")
        parameters = ", ".join(["ctx", *(g.args[0] for g in self.grads)])
        head = ["@staticmethod"]
        if self.between:
            head.append("@torch.autograd.function.once_differentiable")
        notes = self._notes()
        inside = [f"    {line}" for line in [*notes, *body]]
        return "\n".join([*head, f"def backward({parameters}):", *inside])

    def _roots(self) -> list[E]:
        return [r for r in self.results.values() if isinstance(r, E)]

    # What is there.

    def _find_available(self) -> None:
        trace = self.trace
        inputs = {e: name for name, e in trace.args.items()}
        for g in self.grads:
            self.available[g] = g.args[0]
        for i, e in enumerate(trace.saved):
            if e is not None and e not in self.available:
                name = inputs.get(e) or trace.local.get(e) or (
                    "out" if e in trace.outs else f"saved_{i}"
                )  # fmt: skip
                self.available[e] = self._free(name)
        for key, value in trace.attributes.items():
            if isinstance(value, E):
                self.available.setdefault(value, f"ctx.{key}")
            elif isinstance(value, tuple) and value:
                self._sizes(f"ctx.{key}", value)

    def _sizes(self, text: str, value: tuple[Any, ...]) -> None:
        for i, e in enumerate(value):
            if isinstance(e, E):
                self.available.setdefault(e, f"{text}[{i}]")
        first = value[0]
        if isinstance(first, E) and first.head == SIZE:
            of = first.args[0]
            b = self.trace.builder
            if value == tuple(b.extent(of, i) for i in range(len(of.shape))):
                self.available.setdefault(b.shape(of), text)

    def _free(self, name: str) -> str:
        taken = set(self.available.values()) | set(self.names.values()) | {
            "ctx", "torch", "math", *self.trace.names
        }  # fmt: skip
        if name in self.trace.names and name not in self.available.values():
            return name
        if keyword.iskeyword(name) or name in _BUILTIN or not name.isidentifier():
            name = f"{name.strip('_')}_"
        n, out = 2, name
        while out in taken:
            out, n = f"{name}{n}", n + 1
        return out

    # What is needed, and how often.

    def _shape_of(self, of: E) -> E:
        """A tensor at hand that has the shape of ``of``."""
        if of in self.available:
            return of
        for e in self.available:
            if e.is_tensor and e.shape == of.shape and e not in self.grads:
                return e
        for g in self.grads:
            if g.shape == of.shape:
                return g
        return of

    def _parts(self, e: E) -> list[E]:
        if e.head in (SHAPE, SIZE):
            of = self._shape_of(e.args[0])
            if of.head == NAME and of not in self.available:
                return []  # its shape is kept
            return [of]
        if e.op in ("zeros_like",) and e.head == OP and e.args[0] not in self.available:
            return []
        if e.op in ("dtype", "device"):
            return []
        if e.op == "numel":
            return [self._shape_of(e.args[0])]
        if e.op == "pull":
            call, g, *args = e.args
            return [g, *args, *(c for c in children(call) if c not in args)]
        if e.op == "sum_to_size" and self._lost(e.args[1].args[0]):
            return [e.args[0]]
        return list(children(e))

    def _lost(self, of: E) -> bool:
        """Whether nothing at hand has the shape of ``of``, an input."""
        found = self._shape_of(of)
        shape = self.trace.builder.shape(of)
        return (
            found.head == NAME
            and found not in self.available
            and shape not in self.available
        )

    def _count(self, e: E) -> None:
        self.uses[e] += 1
        if self.uses[e] > 1 or e in self.available:
            return
        if e.head == NAME:
            self._leaf(e)
            return
        for part in self._parts(e):
            self._count(part)

    def _leaf(self, e: E) -> None:
        name = e.args[0]
        if isinstance(name, str) and name.startswith("<"):
            op = name[1:].split()[0]
            line = self.trace.lines.get(e, 0)
            what = "an uninitialised tensor" if "empty" in op else "random numbers"
            raise CannotSay(f"the backward needs {what} of line {line}; save them")
        if self.trace.args.get(name) is not e:
            return
        if e.is_tensor:
            if name not in self.extra:
                self.extra.append(name)
            self.available[e] = self._free(name)
        else:
            self.kept[name] = name
            self.available[e] = f"ctx.{name}"

    # Which get a line of their own.

    def _choose(self, roots: list[E]) -> None:
        for e in self._ordered(roots):
            if (self.uses[e] > 1 and not self._cheap(e)) or e.op == "pull":
                self._state(e)
        for name, e in self.results.items():
            if isinstance(e, E) and e not in self.names and e not in self.available:
                several = sum(isinstance(r, E) for r in self.results.values()) > 1
                spare = 12 if several else 6 * len(self.results)
                long = len(self._say(e)) > WIDTH - spare
                if several or long:
                    self._shorten(e)
                    if several:
                        self._state(e, f"grad_{name}")

    def _cheap(self, e: E) -> bool:
        return (
            e in self.available
            or e.head in (NAME, SHAPE, SIZE)
            or e.op in _CHEAP
            or (e.op == "getitem" and isinstance(e.args[1], int))
            or (not e.is_tensor and not isinstance(e.meta, tuple))
        )

    def _ordered(self, roots: list[E]) -> list[E]:
        seen: dict[E, None] = {}

        def visit(e: E) -> None:
            if e in seen or e in self.available or e in self.names:
                return
            for part in self._parts(e):
                visit(part)
            seen[e] = None

        for r in roots:
            visit(r)
        return list(seen)

    def _state(self, e: E, name: str = "") -> None:
        """Give ``e`` a line of its own."""
        if e in self.names:
            return
        self._shorten(e)
        text = self._say(e)
        name = self._free(name or self._called(e))
        self.lines.append(f"{name} = {text}")
        self.names[e] = name

    def _shorten(self, e: E) -> None:
        """Lines for parts of ``e`` until it fits on one itself."""
        while len(self._say(e)) > WIDTH - max(12, 6 * len(self.results)):
            parts = [
                p for p in self._ordered([e])
                if p is not e and p not in self.names and not self._cheap(p)
                and 12 < len(self._say(p)) <= WIDTH - 4
            ]  # fmt: skip
            inside = [p for p in parts if len(self._say(p)) <= WIDTH - 20] or parts
            if not inside:
                return
            self._state(max(inside, key=lambda p: len(self._say(p))))

    def _called(self, e: E) -> str:
        local = self.trace.local.get(e)
        if local:
            return local
        for name, r in self.results.items():
            if r is e:
                return f"grad_{name}"
        if e in self.trace.outs:
            return "out"
        if e.head == OP:
            return _WORDS.get(e.op, e.op)
        return "total" if e.head == ADD else "product"

    # Saying it.

    def _returned(self, name: str) -> str:
        e = self.results.get(name)
        if e is None:
            return "None"
        if not isinstance(e, E):
            return f"torch.zeros_like({name})"
        return self._say(e)

    def _unpacked(self) -> list[str]:
        names = []
        used = {e for e, n in self.uses.items() if n}
        whole = set(self.trace.args.values()) | {e for e in self.trace.outs if e}
        for e in self.trace.saved:
            if e is None or e not in used or e not in self.available:
                names.append("_")
                continue
            names.append(self.available[e])
            self.between = self.between or e not in whole
        names += self.extra
        if not any(n != "_" for n in names):
            return []
        if len(names) == 1:
            return [f"({names[0]},) = ctx.saved_tensors"]
        return [f"{', '.join(names)} = ctx.saved_tensors"]

    def _notes(self) -> list[str]:
        out = []
        if self.extra:
            inputs = {e: n for n, e in self.trace.args.items()}
            saved = [
                (inputs.get(e) or self.trace.local.get(e) or "…") if e else "…"
                for e in self.trace.saved
            ]
            out.append(
                f"# In forward: ctx.save_for_backward({', '.join([*saved, *self.extra])})"
            )
        out += [
            f"# In forward: ctx.{key} = {value}" for key, value in self.kept.items()
        ]
        for name, value in self.trace.fixed.items():
            if value is not None:
                out.append(f"# For {name}={value!r}, as it was checked.")
        return out

    def _say(self, e: Any, binds: int = -1) -> str:
        if not isinstance(e, E):
            return self._constant(e)
        if e in self.names:
            return self.names[e]
        if e in self.available:
            return self.available[e]
        text, tight = self._said(e)
        return f"({text})" if tight < binds else text

    def _constant(self, a: Any) -> str:
        if isinstance(a, torch.Size):
            a = tuple(a)
        if isinstance(a, (tuple, list)):
            inner = ", ".join(self._say(item) for item in a)
            if isinstance(a, list):
                return f"[{inner}]"
            return f"({inner},)" if len(a) == 1 else f"({inner})"
        if isinstance(a, slice):
            start, stop, step = (
                "" if s is None else self._say(s) for s in (a.start, a.stop, a.step)
            )
            return f"{start}:{stop}" + (f":{step}" if step else "")
        if isinstance(a, float) and (a != a or a in (float("inf"), float("-inf"))):
            return f'float("{a}")'
        if isinstance(a, torch.device):
            return f'"{a}"'
        if a is Ellipsis:
            return "..."
        return repr(a)

    def _said(self, e: E) -> tuple[str, int]:
        if e.head == NAME:
            value = e.args[0]
            return (value, _TIGHT) if isinstance(value, str) else (repr(value), _TIGHT)
        if e.head == MUL:
            return self._product(*e.args)
        if e.head == ADD:
            return self._sum(e.args), _BINDS["+"]
        if e.head in (SHAPE, SIZE):
            return self._extent(e), _TIGHT
        return self._call(e)

    def _product(
        self, coeff: Any, factors: tuple[tuple[E, int], ...]
    ) -> tuple[str, int]:
        above = [(f, p) for f, p in factors if p > 0]
        below = [(f, -p) for f, p in factors if p < 0]
        sign = "-" if coeff < 0 else ""
        size = abs(coeff)
        words = []
        if size != 1 or not above:
            words.append(self._constant(size))
        for i, (f, p) in enumerate(above):
            level = _BINDS["*"] + (1 if i or words else 0)
            words.append(self._powered(f, p, level))
        text = sign + " * ".join(words)
        for f, p in below:
            text += f" / {self._powered(f, p, _BINDS['*'] + 1)}"
        alone = sign and len(words) == 1 and not below
        return text, _BINDS["neg"] if alone else _BINDS["*"]

    def _powered(self, f: E, p: int, level: int) -> str:
        if p == 1:
            return self._say(f, level)
        return f"{self._say(f, _BINDS['**'] + 1)} ** {p}"

    def _sum(self, terms: tuple[tuple[Any, Any], ...]) -> str:
        out = ""
        for c, t in terms:
            b = self.trace.builder
            level = _BINDS["+"] + (1 if out else 0)
            if t in self.names and abs(c) != 1:
                said = f"{abs(c)!r} * {self.names[t]}"
            else:
                said = self._say(b.mul(abs(c), t), level)
            out += (" - " if c < 0 else " + ") + said if out else (
                ("-" if c < 0 else "") + said
            )  # fmt: skip
        return out

    def _extent(self, e: E) -> str:
        of = self._shape_of(e.args[0])
        if of.head == NAME and of not in self.available and of.is_tensor:
            key = f"{of.args[0]}_shape"
            self.kept[key] = f"{of.args[0]}.shape"
            text = f"ctx.{key}"
        else:
            text = f"{self._say(of, _TIGHT)}.shape"
        return text if e.head == SHAPE else f"{text}[{e.args[1]}]"

    def _call(self, e: E) -> tuple[str, int]:
        assert e.spelling is not None  # every call has one
        kind, word = e.spelling.kind, e.spelling.text
        if kind == "infix":
            level = _BINDS[word]
            left, right = (level + 1, level) if word == "**" else (level, level + 1)
            a, b = e.args
            return f"{self._say(a, left)} {word} {self._say(b, right)}", level
        if kind == "prefix":
            return f"{word}{self._say(e.args[0], _BINDS['neg'])}", _BINDS["neg"]
        if kind == "attr":
            of = self._shape_of(e.args[0]) if word == "device" else e.args[0]
            if word == "dtype" and of not in self.available and of not in self.names:
                return repr(e.meta), _TIGHT
            return f"{self._say(of, _TIGHT)}.{word}", _TIGHT
        if kind == "index":
            return f"{self._say(e.args[0], _TIGHT)}[{self._key(e.args[1])}]", _TIGHT
        if kind == "pull":
            return self._pulled(e), _TIGHT
        if e.op == "zeros_like" and e.args[0] not in self.available:
            return self._zeros(e), _TIGHT
        if e.op == "numel":
            return f"{self._say(self._shape_of(e.args[0]), _TIGHT)}.numel()", _TIGHT
        if e.op == "sum_to_size" and self._lost(e.args[1].args[0]):
            axes = tuple(range(len(e.args[0].shape) - len(e.shape)))
            shown = axes[0] if len(axes) == 1 else axes
            return f"{self._say(e.args[0], _TIGHT)}.sum({shown})", _TIGHT
        return self._written(e), _TIGHT

    def _written(self, e: E) -> str:
        assert e.spelling is not None  # every call has one
        args = list(e.args)
        head = e.spelling.text
        if e.spelling.kind == "method":
            head = f"{self._say(args.pop(0), _TIGHT)}.{head}"
        words = [self._say(a) for a in args]
        words += [f"{k}={self._say(v)}" for k, v in e.kwargs]
        return f"{head}({', '.join(words)})"

    def _key(self, key: Any) -> str:
        if isinstance(key, tuple):
            return ", ".join(self._say(k) for k in key)
        return self._say(key)

    def _zeros(self, e: E) -> str:
        b = self.trace.builder
        return f"{self.grads[0].args[0]}.new_zeros({self._say(b.shape(e.args[0]))})"

    def _pulled(self, e: E) -> str:
        """The vjp of one call, asked of PyTorch."""
        call, g, *args = e.args
        names = [a.args[0] if a.head == NAME else f"t{i}" for i, a in enumerate(args)]
        names = [n if n.isidentifier() else f"t{i}" for i, n in enumerate(names)]
        given = ", ".join(self._say(a) for a in args)
        if (
            call.spelling.kind == "function"
            and list(call.args) == args
            and not call.kwargs
        ):
            return f"torch.func.vjp({call.spelling.text}, {given})[1]({self._say(g)})"
        before = {a: (self.names.get(a), self.available.get(a)) for a in args}
        for a, n in zip(args, names, strict=True):
            self.names[a] = n
        text = self._written(call) if call.spelling.kind not in (
            "infix", "prefix", "attr", "index") else self._call(call)[0]  # fmt: skip
        for a, (name, _) in before.items():
            del self.names[a]
            if name is not None:
                self.names[a] = name
        inner = f"lambda {', '.join(names)}: {text}"
        return f"torch.func.vjp({inner}, {given})[1]({self._say(g)})"


def cotangent_names(cls: Any, n: int) -> list[str]:
    """What the user's backward calls its ``n`` gradients."""
    try:
        parameters = list(inspect.signature(cls.backward).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(names) != n:
        names = ["grad_output"] if n == 1 else [f"grad_output_{i}" for i in range(n)]
    return names
