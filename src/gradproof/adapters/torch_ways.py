"""The table of ways: everything PyTorch may vary when it asks a rule for one vjp.

A new way is one more entry in one of the lists below (``_TABLE`` at the end names
them). ``torch_present`` does what a presentation says, ``torch_engines`` what asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import torch

from gradproof.adapters import torch_layouts as layouts
from gradproof.adapters.randomness import drawn
from gradproof.adapters.torch_callee import is_new_style
from gradproof.adapters.torch_covering import asked_together, covering, merged
from gradproof.adapters.torch_engines import (
    AUTOCAST,
    BACKWARD,
    BATCHED_GRAD,
    CHECKPOINT,
    COMPILE,
    CREATE_GRAPH,
    EDITED,
    FUNC,
    VMAP,
    through,
)
from gradproof.adapters.torch_presentation import (
    AFTER_FORWARD,
    INTERLEAVED,
    KEPT,
    RETAINED,
    TWICE,
    Presentation,
    TorchWay,
    firsts,
    held_constant,
    one_gradient,
    one_tensor,
    only,
    summed,
    unused,
    zero_axes,
)
from gradproof.rule import Rule, Way
from gradproof.space import Leaf, Space, unit
from gradproof.verdict import Severity

__all__ = [
    "Presentation",
    "TorchWay",
    "asked_together",
    "compiled_by",
    "covering",
    "merged",
    "through",
    "ways_for",
]

# All subsets of the inputs are asked up to this many inputs.
SUBSETS = 5
# Pairs of inputs that are passed as one tensor; more tell nothing new.
PAIRS = 6
# Each input is batched alone up to this many inputs.
BATCHED = 4

_INPUT_LAYOUTS = (
    layouts.PACKED,
    layouts.TRANSPOSED,
    layouts.SLICED,
    layouts.OFFSET,
    layouts.UNALIGNED,
    layouts.EXPANDED,
    layouts.CHANNELS_LAST,
)
# Layouts whose elements lie in memory in the order of their indices.
_SAME_ORDER = (layouts.SLICED, layouts.OFFSET, layouts.UNALIGNED)


def ways_for(rule: Rule) -> tuple[TorchWay, ...]:
    """Every way of asking ``rule``, each alone; ``covering`` merges them.

    The leaves' shapes decide which ways there are.
    """
    subject = _Subject.of(rule)
    return tuple(way for rows in _TABLE for way in rows(subject))


@dataclass(frozen=True, eq=False)
class _Subject:
    """What the table looks at: leaves, and a few features of the rule.

    ``strided`` says, per input, whether the user gave it otherwise than packed;
    ``draws`` whether the forward draws random numbers. ``transforms`` and ``batches`` are False for a Function that torch.func, or vmap, is
    known to refuse.
    """

    domain: Space
    codomain: Space
    cotangent: str
    strided: tuple[bool, ...]
    sparse: tuple[bool, ...]
    parameter: tuple[bool, ...]
    draws: bool = False
    transforms: bool = True
    batches: bool = True

    @classmethod
    def of(cls, rule: Rule) -> _Subject:
        """The subject that ``rule`` is; a rule without a program is packed and plain."""
        primal = getattr(rule, "forward", rule.primal)
        program = getattr(rule, "program", None)
        n = len(primal.domain)
        specs: Sequence[Any] = getattr(program, "specs", (None,) * n)
        owner = getattr(getattr(program, "call", None), "__self__", None)
        new_style, batches = _style(owner)
        return cls(
            primal.domain,
            primal.codomain,
            rule.names[1],
            tuple(getattr(s, "strides", None) is not None for s in specs),
            tuple(getattr(s, "sparse", None) is not None for s in specs),
            tuple(bool(getattr(s, "parameter", False)) for s in specs),
            draws=program is not None and _draws(rule, program),
            transforms=new_style,
            batches=batches,
        )

    def cotangent_name(self, i: int) -> str:
        """What the cotangent of output ``i`` is called."""
        return self.cotangent if len(self.codomain) == 1 else f"{self.cotangent}[{i}]"


_DREW: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def seen_to_draw(program: Any, *, drew: bool) -> None:
    """Remember whether a forward of ``program`` drew random numbers."""
    _DREW[program] = drew


def _draws(rule: Any, program: Any) -> bool:
    """Whether the forward draws random numbers, asked unless it was seen already."""
    if program not in _DREW:
        with program.state as state, torch.no_grad():
            before = state.read()
            try:
                program(rule.forward.tensors(rule.forward.point))
            except Exception:
                _DREW[program] = False  # whoever asks will hear of it
            else:
                _DREW[program] = bool(drawn(before, state.read()))
    return _DREW[program]


def _style(owner: Any) -> tuple[bool, bool]:
    """Whether torch.func, and whether vmap, may run what ``owner`` applies."""
    if not (isinstance(owner, type) and issubclass(owner, torch.autograd.Function)):
        return True, True
    new_style = is_new_style(owner)
    batches = owner.vmap is not torch.autograd.Function.vmap or bool(
        owner.generate_vmap_rule
    )
    return new_style, new_style and batches


# --- the table -------------------------------------------------------------------------


def _cotangent_layouts(s: _Subject) -> Iterator[TorchWay]:
    """The layouts in which consumers send ȳ: x.t(), [::2], cat, expand, sum, conv."""
    for i, leaf in enumerate(s.codomain):
        for layout in layouts.LAYOUTS:
            if not layouts.applicable(leaf, layout):
                continue
            if layout == layouts.EXPANDED:
                layout = layouts.along(layout, layouts.axis_of(layout, leaf.shape) or 0)
            said = "expanded from a scalar" if layout == layouts.SCALAR else layout
            yield TorchWay(
                name=f"{s.cotangent_name(i)} {said.replace('_', ' ')}",
                factor="grad_output layout",
                slug="layout-assumed",
                raised="layout-assumed",
                place=partial(held_constant, s.codomain, leaf, layout, 1)
                if zero_axes(leaf, layout)
                else Way.place,
                presentation=Presentation(cotangent=_one(layout, i, len(s.codomain))),
            )


def _input_layouts(s: _Subject) -> Iterator[TorchWay]:
    """The layouts in which callers send inputs: slices, offsets, expanded biases."""
    n = len(s.domain)
    for i, leaf in enumerate(s.domain):
        for layout in _INPUT_LAYOUTS:
            if s.sparse[i] or not _applies(leaf, layout, given=s.strided[i]):
                continue
            if s.parameter[i] and layout not in (layouts.OFFSET, layouts.UNALIGNED):
                continue  # a module owns them; slices of one flat buffer at most
            if s.draws and layout not in _SAME_ORDER:
                continue  # numbers drawn in the order of memory would be others
            said = layout
            if layout == layouts.EXPANDED:
                layout = _expanded_input(leaf)
                said = layouts.EXPANDED if layout == layouts.SCALAR else layout
            elif layout == layouts.PACKED:
                said = layouts.CONTIGUOUS
            axes = zero_axes(leaf, layout)
            yield TorchWay(
                name=f"{leaf.path} {said.replace('_', ' ')}",
                factor="input layout",
                slug="layout-assumed",
                raised="layout-assumed",
                # A forward that refuses a layout says so to whoever passes it.
                raised_severity=Severity.WARNING,
                place=partial(held_constant, s.domain, leaf, layout, 0)
                if axes
                else Way.place,
                # Which of several equal inputs wins is no mistake: only the gradient
                # of what was expanded, their sum, is asked.
                fold=partial(summed, s.domain, leaf, axes) if axes else Way.fold,
                covers=firsts(s.domain, leaf, axes) if axes else None,
                presentation=Presentation(inputs=_one(layout, i, n)),
            )


def _applies(leaf: Leaf, layout: str, *, given: bool) -> bool:
    if layout == layouts.PACKED:
        return given
    if layout == layouts.EXPANDED:
        return layouts.applicable(leaf, layouts.SCALAR)
    return layouts.applicable(leaf, layout)


def _expanded_input(leaf: Leaf) -> str:
    """Expanded along the first axis that has more than one element, as a bias is."""
    wide = [a for a, extent in enumerate(leaf.shape) if extent > 1]
    return layouts.SCALAR if len(wide) < 2 else layouts.along(layouts.EXPANDED, wide[0])


def _one(layout: str, i: int, n: int) -> str:
    """A specification of ``n`` layouts in which only number ``i`` is ``layout``."""
    return ",".join(layout if k == i else layouts.CONTIGUOUS for k in range(n))


_CALLS = (
    (TWICE, "asked twice in a row", "stale-state", Severity.ERROR),
    (RETAINED, "backward twice through one graph", "stale-state", Severity.WARNING),
    (INTERLEAVED, "two graphs interleaved", "stale-state", Severity.ERROR),
    (AFTER_FORWARD, "backward after another forward", "stale-state", Severity.ERROR),
    (KEPT, "result kept while another is computed", "reused-buffer", Severity.ERROR),
)


def _calls(s: _Subject) -> Iterator[TorchWay]:
    """The rule called again before, between and after the question."""
    for calls, name, slug, severity in _CALLS:
        yield TorchWay(
            name=name,
            factor="calls",
            slug=slug,
            raised=slug,
            raised_severity=severity,
            presentation=Presentation(calls=calls),
        )


def _needs(s: _Subject) -> Iterator[TorchWay]:
    """Frozen inputs: all subsets of a few inputs, else each alone and each frozen."""
    n = len(s.domain)
    sizes = range(1, n) if n <= SUBSETS else (1, n - 1)
    for size in sizes:
        for chosen in combinations(range(n), size):
            needs = tuple(i in chosen for i in range(n))
            yield TorchWay(
                name=_needs_name([leaf.path for leaf in s.domain], needs),
                factor="needs grad",
                slug="subset-dependent",
                raised="subset-dependent",
                covers=only(s.domain, needs),
                presentation=Presentation(needs=needs),
            )


def _needs_name(paths: list[str], needs: tuple[bool, ...]) -> str:
    asked = [path for path, need in zip(paths, needs, strict=True) if need]
    frozen = [path for path, need in zip(paths, needs, strict=True) if not need]
    if len(asked) == 1:
        return f"only {asked[0]} requires grad"
    if len(frozen) == 1:
        return f"{frozen[0]} frozen"
    return f"only {' and '.join(asked)} require grad"


def _outputs(s: _Subject) -> Iterator[TorchWay]:
    """Outputs that nobody used: each alone, and all but each."""
    m = len(s.codomain)
    paths = [leaf.path for leaf in s.codomain]
    rows = [tuple(k != i for k in range(m)) for i in range(m)] if m > 1 else []
    rows += [tuple(k == i for k in range(m)) for i in range(m)] if m > 2 else []
    for used in rows:
        name = (
            f"only {paths[used.index(True)]} used"
            if sum(used) == 1 and m > 2
            else f"{paths[used.index(False)]} unused"
        )
        yield TorchWay(
            name=name,
            factor="unused output",
            slug="undefined-cotangent",
            raised="undefined-cotangent",
            place=partial(unused, s.codomain, used),
            presentation=Presentation(outputs=used),
        )


def _alias(s: _Subject) -> Iterator[TorchWay]:
    """One tensor passed as two inputs."""
    alike = [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(s.domain), 2)
        if (a.shape, a.precision, a.is_complex) == (b.shape, b.precision, b.is_complex)
        and not (s.sparse[i] or s.sparse[j] or s.parameter[i] or s.parameter[j])
    ]
    for i, j in alike[:PAIRS]:
        a, b = s.domain.leaves[i], s.domain.leaves[j]
        yield TorchWay(
            name=f"one tensor as both {a.path} and {b.path}",
            factor="aliasing",
            slug="aliased-inputs",
            raised="aliased-inputs",
            raised_severity=Severity.WARNING,
            place=partial(one_tensor, a, b),
            fold=partial(one_gradient, a, b),
            covers=only(s.domain, [k != j for k in range(len(s.domain))]),
            presentation=Presentation(alias=(i, j)),
        )


_ENGINES = (
    # engine, name, factor, slug, raised slug, severity when it raises
    (BACKWARD, "through .backward()", "engine", "accumulates-in-place",
     "accumulates-in-place", Severity.ERROR),
    (CREATE_GRAPH, "under create_graph", "engine", "mode-dependent",
     "unsupported-transform", Severity.NOTE),
    (CHECKPOINT, "under checkpoint", "engine", "stale-state",
     "unsupported-transform", Severity.NOTE),
    (BATCHED_GRAD, "with batched grad_outputs", "vmap", "wrong-vmap",
     "unsupported-transform", Severity.NOTE),
    (FUNC, "under torch.func.vjp", "engine", "mode-dependent",
     "unsupported-transform", Severity.NOTE),
)  # fmt: skip


def _engines(s: _Subject) -> Iterator[TorchWay]:
    """Who asks: .backward(), create_graph, checkpoint, torch.func, batched."""
    for engine, name, factor, slug, raised, severity in _ENGINES:
        yield TorchWay(
            name=name,
            factor=factor,
            slug=slug,
            raised=raised,
            raised_severity=severity,
            presentation=Presentation(engine=engine),
        )


def _edits(s: _Subject) -> Iterator[TorchWay]:
    """An input written on before the backward runs: each of a few inputs, else all."""
    n = len(s.domain)
    if any(s.sparse):
        return
    rows = [(i,) for i in range(n)] if n <= SUBSETS else [tuple(range(n))]
    for row in rows:
        which = s.domain.leaves[row[0]].path if len(row) == 1 else "every input"
        yield TorchWay(
            name=f"{which} edited in place before backward",
            factor="edits",
            slug="stale-state",
            severity=Severity.WARNING,  # right as long as nobody writes on the input
            presentation=Presentation(engine=f"{EDITED} {','.join(map(str, row))}"),
        )


def _vmap(s: _Subject) -> Iterator[TorchWay]:
    """A batch of calls at once, for the ways in which inputs can be batched."""
    n = len(s.domain)
    if any(s.sparse) or not s.transforms:
        return  # "under torch.func.vjp" says it once
    rows = [("0",) * n]
    if s.batches:
        if any(leaf.shape for leaf in s.domain):
            rows.append(("-1",) * n)
        if 1 < n <= BATCHED:
            rows += [tuple("0" if k == i else "-" for k in range(n)) for i in range(n)]
    paths = [leaf.path for leaf in s.domain]
    for row in rows:
        over = [path for path, axis in zip(paths, row, strict=True) if axis != "-"]
        which = "" if len(over) == n else f" over {' and '.join(over)} alone"
        last = ", batched along the last axis" if "-1" in row else ""
        yield TorchWay(
            name=f"under vmap{which}{last}",
            factor="vmap",
            slug="wrong-vmap",
            raised="unsupported-transform",
            raised_severity=Severity.NOTE,
            presentation=Presentation(engine=f"{VMAP} {','.join(row)}"),
        )


def _autocast(s: _Subject) -> Iterator[TorchWay]:
    """Inside an autocast region, where matrix products run in bfloat16."""
    if any(leaf.is_complex for leaf in (*s.domain, *s.codomain)) or any(s.sparse):
        return
    if s.draws:
        return  # another dtype draws other numbers
    yield TorchWay(
        name="under autocast",
        factor="autocast",
        slug="autocast-mismatch",
        raised="autocast-mismatch",
        raised_severity=Severity.WARNING,
        unit=unit("bfloat16"),
        presentation=Presentation(engine=AUTOCAST),
    )


def compiled_by(backend: str) -> TorchWay:
    """Under torch.compile; asked on demand and never in the table, for it takes seconds."""
    return TorchWay(
        name="under torch.compile",
        factor="compiler",
        slug="compiler-mismatch",
        raised="compiler-mismatch",
        raised_severity=Severity.WARNING,
        presentation=Presentation(engine=f"{COMPILE} {backend}"),
    )


_TABLE: tuple[Callable[[_Subject], Iterator[TorchWay]], ...] = (
    _cotangent_layouts,
    _input_layouts,
    _calls,
    _needs,
    _outputs,
    _alias,
    _engines,
    _edits,
    _vmap,
    _autocast,
)
