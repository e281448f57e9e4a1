"""The facts of a source text, and what can be asked of them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from gradproof.verdict import Help, Source, Span

_ROOT = re.compile(r"^([^.\[]*)(?:\[(\d+)\])?")


@dataclass(frozen=True)
class Gradient:
    """What one ``return`` of a backward gives for one input.

    ``returned`` is the element of the return itself; ``computed`` the expression that
    gives it its value, one assignment back where the element is a name.
    """

    position: int
    returned: Span
    computed: Span
    is_none: bool = False


@dataclass(frozen=True)
class Mention:
    """Something done at a place. ``within`` is "forward" or "backward".

    ``kind`` is one of: context (an attribute set on ctx), contiguous, detach, no-grad,
    writes-cotangent, writes-saved, writes-input (in place), writes-state, reads-state
    (on a class, a module, a global), reduction, random, cast, raw-memory (torch.empty),
    pointer, dirty, save, applies (another Function), materialize, cut-off (marked as not
    differentiable), fills (an item of a tensor of its own), branch-KIND (a condition, see
    ``syntax.branches``). ``subject`` is the name that it is done to, or the axis of a
    reduction.
    """

    kind: str
    within: str
    span: Span
    subject: str = ""


@dataclass(frozen=True)
class Facts:
    """What the text says. All empty where there is no text, or none that parses."""

    source: Source = field(default_factory=lambda: Source(""))
    lines: tuple[str, ...] = ()
    forward_span: Span | None = None
    backward_span: Span | None = None
    inputs: tuple[str, ...] = ()  # parameters of the forward, without ctx
    cotangents: tuple[str, ...] = ()  # parameters of the backward that are cotangents
    cotangent_spans: tuple[Span, ...] = ()
    unread_cotangents: tuple[Span, ...] = ()  # never read, or overwritten before
    unused_saved: tuple[Span, ...] = ()  # unpacked from ctx and never read
    saved: tuple[str, ...] = ()  # arguments of save_for_backward, as written
    unpacked: tuple[str, ...] = ()  # names that the backward gives to what was saved
    outputs: tuple[str, ...] = ()  # what the forward returns, as written, if one way
    gradients: tuple[Gradient, ...] = ()
    returns: tuple[Span, ...] = ()  # the expressions that the backward returns
    decorators: tuple[str, ...] = ()  # of the backward, last name of each
    mentions: tuple[Mention, ...] = ()
    methods: tuple[
        tuple[str, Span, tuple[Span, ...]], ...
    ] = ()  # jvp and vmap: returns

    @property
    def once_differentiable(self) -> bool:
        """Whether the backward declares that it has no derivative of its own."""
        return "once_differentiable" in self.decorators

    @property
    def custom_bwd(self) -> bool:
        """Whether the backward is set to run in the autocast mode of its forward."""
        return "custom_bwd" in self.decorators

    def line(self, n: int) -> str:
        """Line ``n`` of the user's file, "" outside of the text."""
        at = n - self.source.line
        return self.lines[at] if 0 <= at < len(self.lines) else ""

    def all(self, kind: str, within: str = "") -> tuple[Span, ...]:
        """Where something of that kind is done, in the forward, the backward or both."""
        return tuple(
            m.span for m in self.mentions if m.kind == kind and within in ("", m.within)
        )

    def position(self, path: str) -> int | None:
        """Which argument of the forward ``path`` belongs to, counted from 0."""
        root, index = _ROOT.match(path).groups()  # type: ignore[union-attr]
        if root in self.inputs:
            return self.inputs.index(root)
        star = f"*{root}"
        if star in self.inputs and index is not None:
            return self.inputs.index(star) + int(index)
        if root in ("inputs", "args") and index is not None:
            return int(index)
        return None

    def gradients_of(self, path: str) -> tuple[Gradient, ...]:
        """What the backward returns for one input: one for each ``return`` it has."""
        at = self.position(path)
        if at is None:
            at = 0 if not self.inputs and len(self.gradients) == 1 else -1
        return tuple(g for g in self.gradients if g.position == at)

    def gradient(self, path: str) -> Gradient | None:
        """What the backward returns for an input, in the last return that gives it."""
        found = self.gradients_of(path)
        given = [g for g in found if not g.is_none] or found
        return given[-1] if given else None

    def returned(self, path: str) -> Span | None:
        """The piece of a ``return`` that is this input's gradient.

        Where the elements cannot be told apart, the whole expression.
        """
        found = self.gradient(path)
        if found is not None:
            return found.returned
        return self.returns[-1] if self.returns and not self.gradients else None

    def computed(self, path: str) -> Span | None:
        """The expression that computes this input's gradient, where it is assigned."""
        found = self.gradient(path)
        return found.computed if found is not None else self.returned(path)

    def text(self, span: Span) -> str:
        """The source of a piece, over all of its lines."""
        if span.stop is None:
            return span.text[span.start : span.end]
        last, column = span.stop
        rows = [self.line(n) for n in range(span.line, last + 1)]
        rows[-1] = rows[-1][:column]
        rows[0] = rows[0][span.start :]
        return "\n".join(rows)

    def operand(self, span: Span) -> str:
        """The source of a piece, in parentheses where a product would tear it."""
        text = self.text(span)
        try:
            tree = ast.parse(f"({text}\n)", mode="eval").body
        except (SyntaxError, ValueError):
            return f"({text})"
        whole = (
            ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List,
        )  # fmt: skip
        product = isinstance(tree, ast.BinOp) and isinstance(
            tree.op, (ast.Mult, ast.Div, ast.Pow)
        )
        bare = isinstance(tree, whole) or (product and span.stop is None)
        return text if bare or _enclosed(text) else f"({text})"

    def edit(self, span: Span, new: str, text: str = "") -> Help:
        """The help ``text`` with the diff that puts ``new`` in the place of a piece."""
        last, column = span.stop or (span.line, span.end)
        old = [self.line(n) or span.text for n in range(span.line, last + 1)]
        changed = old[0][: span.start] + new + old[-1][column:]
        return Help(text, span.line, "\n".join(old), changed)


def _enclosed(text: str) -> bool:
    """Whether one pair of brackets holds all of ``text``."""
    depth = 0
    for i, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and i < len(text) - 1:
            return False
    return text[:1] in "([{"
