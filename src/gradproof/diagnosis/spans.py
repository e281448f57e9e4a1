"""Pieces of the user's source that belong to a finding; only where they are certain."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from gradproof.diagnosis.card import Match
from gradproof.diagnosis.look import Look
from gradproof.source import Facts, facts
from gradproof.verdict import Source, Span

# What a static fact is called in the margin. It stands beside a measurement, never alone.
_LABELS = {
    "unread-cotangent": "the cotangent arrives here and is never read",
    "writes-cotangent": "written in place",
    "writes-input": "written in place",
    "writes-saved": "written in place",
    "writes-state": "kept outside of this call",
    "reads-state": "read from outside of this call",
    "context": "kept on ctx, out of the graph's sight",
    "save": "saved here",
    "cast": "cast here",
    "random": "drawn here",
    "raw-memory": "not initialised",
    "pointer": "memory read without its strides",
    "detach": "cut from the graph here",
    "no-grad": "cut from the graph here",
    "reduction": "reduced here",
    "applies": "applied here",
    "fills": "written here",
    "materialize": "an unused output then has None for its cotangent",
    "cut-off": "marked as having no gradient",
    "branch-dtype": "another path for another dtype",
    "branch-mode": "another path where a graph is recorded",
    "branch-needs": "decides which gradients are computed",
    "branch-alias": "another path where two tensors share memory",
    "branch-size": "another path for another size",
    "branch-truth": "not true for dimension 0 either",
}
# Facts of a card → kinds of mention, where they differ, and the method they must be in.
_KINDS = {
    "outer-state": ("writes-state", "reads-state"),
    "layout": ("pointer",),
    "ctx-attribute": ("context",),
    "cut": ("cut-off", "detach", "no-grad"),
    "forward-write": ("writes-input",),
    "write": ("writes-saved", "writes-input", "writes-cotangent"),
}
_WITHIN = {
    "cut": "forward", "forward-write": "forward", "write": "backward",
    "materialize": "", "applies": "backward", "fills": "backward", "cast": "",
    "branch-dtype": "backward", "branch-mode": "backward", "branch-needs": "backward",
    "branch-alias": "backward", "branch-size": "backward", "branch-truth": "vmap",
}  # fmt: skip
MOST = 3  # secondary spans that are shown


@lru_cache(maxsize=64)
def _facts(source: Source) -> Facts:
    return facts(source)


def of(slug: str, match: Match, look: Look) -> tuple[Span, ...]:
    """The spans of a finding; the one to look at first is marked primary."""
    known = _facts(look.evidence.source)
    found = _raised(match, known) or _returned(match, look, known)
    extra = [s for fact in match.facts for s in _said(fact, known)]
    if not found and extra:
        found, extra = extra[:1], extra[1:]
    header = known.forward_span if "forward" in match.facts else known.backward_span
    if not found and header is not None:
        found = [header]
    lead = [replace(s, primary=i == 0) for i, s in enumerate(found)]
    rest = [replace(s, primary=False) for s in extra[:MOST]]
    return tuple(_apart([*lead, *rest]))


def _apart(spans: list[Span]) -> list[Span]:
    """Without repeats of the same place."""
    seen: dict[tuple[int, int, int], Span] = {}
    for s in spans:
        seen.setdefault((s.line, s.start, s.end), s)
    return list(seen.values())


def _raised(match: Match, known: Facts) -> list[Span]:
    """The line of the user's file that raised, if it is in the text."""
    failure = match.failure
    if failure is None or failure.file != known.source.file:
        return []
    text = known.line(failure.line)
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if end <= start:
        return []
    return [Span(failure.file, failure.line, start, end, text, "raises here")]


def _returned(match: Match, look: Look, known: Facts) -> list[Span]:
    """The expressions that are returned for the inputs in question."""
    if look.layer not in ("cotangent", "first order") and not match.paths:
        return []
    paths = match.paths or tuple(a.path for a in look.wrong_leaves)
    if not paths and len(look.leaves) == 1:
        paths = (look.leaves[0].path,)
    out = []
    for path in paths:
        span = known.returned(path)
        if span is not None:
            label = match.label or f"the gradient of {path}"
            out.append(replace(span, label=label))
    return out


def _said(fact: str, known: Facts) -> list[Span]:
    if fact == "unread-cotangent":
        label = _LABELS[fact]
        return [replace(s, label=label) for s in known.unread_cotangents]
    if fact == "returns":
        return list(known.returns)
    if fact in ("jvp", "vmap"):
        return [
            s
            for name, header, returns in known.methods
            if name == fact
            for s in (returns if fact == "jvp" and returns else (header,))
        ]
    kinds = _KINDS.get(fact, (fact,))
    return [
        replace(s, label=_LABELS.get(kind, ""))
        for kind in kinds
        for s in known.all(kind, _WITHIN.get(fact, ""))
    ]


def rewrite(match: Match, look: Look) -> tuple[str, str, int]:
    """(old text, new text, line number) of a repair, or ("", "", 0)."""
    known = _facts(look.evidence.source)
    if match.swap is not None:
        return _exchanged(match.swap, known)
    paths = match.paths or tuple(a.path for a in look.wrong_leaves)
    if not match.new or len(paths) != 1:
        return "", "", 0
    given = [g for g in known.gradients_of(paths[0]) if not g.is_none]
    span = given[0].returned if len(given) == 1 else None
    if span is None and not given:
        span = known.returned(paths[0]) if len(known.returns) == 1 else None
    code = _code(match.new, known)
    if span is None or not code:
        return "", "", 0
    old = known.operand(span)
    grad = known.cotangents[0] if known.cotangents else "grad_output"
    if "{grad}" in code and len(known.cotangents) != 1:
        return "", "", 0
    if old.isidentifier():
        code = code.replace("({old})", "{old}")
    edited = known.edit(span, code.format(old=old, grad=grad))
    return edited.old, edited.new, edited.line


def _exchanged(swap: tuple[str, str], known: Facts) -> tuple[str, str, int]:
    """Two elements of one return in each other's place."""
    given = [known.gradients_of(path) for path in swap]
    if any(len(g) != 1 for g in given):
        return "", "", 0
    first, second = sorted((g[0].returned for g in given), key=lambda s: s.start)
    if first.line != second.line or first.stop or second.stop:
        return "", "", 0
    line = first.text
    a, b = line[first.start : first.end], line[second.start : second.end]
    between = line[first.end : second.start]
    new = line[: first.start] + b + between + a + line[second.end :]
    return line, new, first.line


_WORDS = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_FUNCTIONS = ("exp", "sqrt", "sin", "cos", "tanh", "log", "sigmoid", "sign")


def _code(template: str, known: Facts) -> str:
    """A formula as code, or "" where a name in it is not one that backward has."""
    if "|" in template or "(the output)" in template or "'s index" in template:
        return ""
    text = template.replace(" · ", " * ").replace("·", " * ")
    text = re.sub(r"tanh²(\((?:[^()]|\([^()]*\))*\))", r"tanh\1**2", text)
    text = text.replace("²", "**2").replace("³", "**3")
    if not text.isascii():
        return ""
    # Methods and keywords are no names of the backward's own.
    bare = re.sub(r"\.[A-Za-z_]\w*|\b\w+=", "", text)
    names = set(_WORDS.findall(bare)) - {"old", "grad", "float", "True"}
    functions = names & set(_FUNCTIONS)
    body = _backward_words(known)
    if not (names - functions) <= body:
        return ""
    for name in functions:
        text = re.sub(rf"(?<![\w.]){name}\(", f"torch.{name}(", text)
    return text


def _backward_words(known: Facts) -> set[str]:
    """Names that occur in the text of the backward."""
    if known.backward_span is None:
        return set()
    first = known.backward_span.line
    indent = len(known.line(first)) - len(known.line(first).lstrip())
    words: set[str] = set()
    n = first
    while known.line(n) or n < first + 2:
        line = known.line(n)
        if n > first and line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        words |= set(_WORDS.findall(line))
        n += 1
        if n > first + 400:
            break
    return words


def cotangents(look: Look) -> tuple[str, ...]:
    """The cotangents, as the backward names them."""
    return _facts(look.evidence.source).cotangents


def cotangent(look: Look) -> str:
    """The name of the only cotangent, or what PyTorch's pages call it."""
    names = cotangents(look)
    return names[0] if len(names) == 1 else "grad_output"


def arguments(look: Look) -> tuple[str, ...]:
    """The arguments of forward, as its text names them."""
    return _facts(look.evidence.source).inputs


def unsaved(look: Look) -> tuple[str, ...]:
    """What the backward unpacks from ctx where the forward saves nothing."""
    known = _facts(look.evidence.source)
    return () if known.saved else known.unpacked


def local_names(look: Look) -> dict[str, str]:
    """What the backward calls each input and output that was saved for it, by its path."""
    known = _facts(look.evidence.source)
    if len(known.saved) != len(known.unpacked):
        return {}
    kept = dict(zip(known.saved, known.unpacked, strict=True))
    paths = {a.path: a.path for a in look.evidence.domain}
    outs = [a.path for a in look.evidence.codomain]
    if len(outs) == len(known.outputs):
        paths.update(zip(outs, known.outputs, strict=True))
    return {path: kept[name] for path, name in paths.items() if name in kept}


def saved_for(look: Look, used: str, meant: str) -> tuple[int, str, str]:
    """(line, name saved, name to save) where the forward saves the output for an input.

    Names are those of the forward; (0, "", "") where the text does not say.
    """
    known = _facts(look.evidence.source)
    outs = [leaf.path for leaf in look.evidence.codomain]
    name = used
    if used in outs and len(known.outputs) == len(outs):
        name = known.outputs[outs.index(used)]
    lines = known.all("save")
    if name not in known.saved or len(lines) != 1 or meant not in known.inputs:
        return 0, "", ""
    return lines[0].line, name, meant


def applied(look: Look) -> tuple[str, ...]:
    """Names of the Functions that the text of the backward applies."""
    known = _facts(look.evidence.source)
    found = (
        m.subject for m in known.mentions
        if m.kind == "applies" and m.within == "backward"
    )  # fmt: skip
    return tuple(dict.fromkeys(found))


def applies(look: Look) -> bool:
    """Whether the text of the backward applies a custom gradient of its own."""
    return "apply" in _backward_words(_facts(look.evidence.source))
