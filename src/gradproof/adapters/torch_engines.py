"""Everyone but ``torch.autograd.grad`` who may ask a rule for its vjp.

``through`` runs one of them. Each takes a ``Question`` and returns one gradient per
leaf, that of (x, ȳ), None where the engine has none. Engines that answer a batch at once
compare every lane with the call alone, and hand back the error of the worst.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gradproof.adapters.randomness import drawn
from gradproof.adapters.torch_autocast import NotUnderAutocast, under_autocast
from gradproof.adapters.torch_hooks import packing
from gradproof.adapters.torch_program import Program
from gradproof.adapters.torch_tensors import dense
from gradproof.patience import TooLong, allowance, patience
from gradproof.rule import RAN_EAGERLY, NotCompiled
from gradproof.verdict import Effect

Grads = list[Tensor | None]

GRAD, BACKWARD, CREATE_GRAPH = "grad", "backward", "create_graph"
CHECKPOINT, VMAP, AUTOCAST = "checkpoint", "vmap", "autocast"
FUNC, BATCHED_GRAD, COMPILE = "func", "batched", "compile"
EDITED = "edited"

# Another point is x in reverse order (what keeps a matrix symmetric and positive, a row
# of unit length, and a mask not its own), times a factor; then what is less bold, for a
# function that raises there.
ELSEWHERE = ((True, 0.875), (True, 1.0), (False, 0.875), (False, 1.125), (False, 1.0))


class Refused(Exception):
    """The question was refused, as it ought to be; says nothing against the rule."""


@dataclass(eq=False)
class Question:
    """One vjp: fresh leaves, between guards or not, and their cotangents."""

    engine: str
    program: Program
    leaves: list[Tensor]
    cotangents: list[Tensor]
    effects: list[Effect] = field(default_factory=list)

    def forward(self, leaves: Sequence[Tensor]) -> list[Tensor]:
        """The outputs, everything outside the tensors being as at the beginning."""
        self.program.state.again()
        return self.program(list(leaves))

    def run(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """``forward`` for callers that want positional arguments and a tuple."""
        return tuple(self.forward(tensors))

    def again(self) -> list[Tensor]:
        """The same leaves once more, in memory of their own."""
        return [t.detach().clone().requires_grad_(t.requires_grad) for t in self.leaves]


def through(
    engine: str,
    program: Program,
    leaves: list[Tensor],
    cotangents: list[Tensor],
    effects: list[Effect] | None = None,
) -> Grads:
    """The gradients of ``leaves``, asked by ``engine``.

    Raises what the user's code or the engine raises.

    Args:
        engine: a name above; ``vmap`` with the axis of each input, as in "vmap 0,-,1"
            (-: not batched); ``compile`` with the backend, as in "compile aot_eager";
            ``edited`` with the numbers of the inputs that are, as in "edited 0,2".
        program: maps leaves to outputs.
        leaves: fresh leaves of the graph.
        cotangents: one for each output.
        effects: takes what was seen beside the gradient.
    """
    q = Question(engine, program, leaves, cotangents)
    with warnings.catch_warnings():
        # What PyTorch has to say of its own transforms is nothing about the rule.
        warnings.simplefilter("ignore")
        grads = _ENGINES[engine.split(" ")[0]](q)
    if effects is not None:
        effects += q.effects
    return [None if g is None else g.detach() for g in grads]


def pull(
    outs: Sequence[Tensor],
    leaves: Sequence[Tensor],
    cotangents: Sequence[Tensor | None],
    *,
    retain: bool = False,
    create: bool = False,
    batched: bool = False,
) -> Grads:
    """One gradient for each leaf; None where it needs none or the engine has none.

    ``cotangents`` is None for an output that nobody used. A tensor that stands in
    several places among ``leaves`` has its gradient in each.
    """
    pairs = [
        (t, c.to(t.device))
        for t, c in zip(outs, cotangents, strict=True)
        if c is not None and t.requires_grad
    ]
    wanted = {id(t): t for t in leaves if t.requires_grad}
    if not pairs or not wanted:
        return [None] * len(leaves)
    grads = torch.autograd.grad(
        [t for t, _ in pairs],
        list(wanted.values()),
        [c for _, c in pairs],
        allow_unused=True,
        retain_graph=retain or create,
        create_graph=create,
        is_grads_batched=batched,
    )
    found = dict(zip(wanted, grads, strict=True))
    return [found.get(id(t)) for t in leaves]


def elsewhere(tensors: Sequence[Tensor], *, flip: bool, scale: float) -> list[Tensor]:
    """The numbers of another point, without grad; zeros alone become a quarter."""
    out = []
    for t in tensors:
        moved = t.detach() * scale if bool(t.any()) else torch.full_like(t, 0.25)
        out.append(moved.flip(tuple(range(moved.ndim))) if flip else moved)
    return out


def other_cotangents(cotangents: Sequence[Tensor]) -> list[Tensor]:
    """Other cotangents of the same size."""
    return [-c.flip(tuple(range(c.ndim))) for c in cotangents]


def _backward(q: Question) -> Grads:
    """.backward() into an empty .grad, then into one that holds that gradient.

    Returns half of what the second left, which is the gradient when both are right.
    """
    first, second = q.leaves, q.again()
    _into_grad(q, first)
    for a, b in zip(first, second, strict=True):
        b.grad = None if a.grad is None else a.grad.detach().clone()
    _into_grad(q, second)
    return [_half(a.grad, b.grad) for a, b in zip(first, second, strict=True)]


def _into_grad(q: Question, leaves: list[Tensor]) -> None:
    outs = q.forward(leaves)
    pairs = [(t, c) for t, c in zip(outs, q.cotangents, strict=True) if t.requires_grad]
    wanted = [t for t in leaves if t.requires_grad]
    if pairs and wanted:
        # Only into ours: the .grad of what the user's code captured stays as it is.
        torch.autograd.backward(
            [t for t, _ in pairs], [c.clone() for _, c in pairs], inputs=wanted
        )


def _half(once: Tensor | None, twice: Tensor | None) -> Tensor | None:
    if once is None or twice is None:
        return once if twice is None else twice
    once, half = dense(once), dense(twice) / 2
    # Twice a finite gradient may be none: then the first is all there is to see.
    return torch.where(once.isfinite() & ~half.isfinite(), once, half)


def _create_graph(q: Question) -> Grads:
    return pull(q.forward(q.leaves), q.leaves, q.cotangents, create=True)


def _checkpoint(q: Question) -> Grads:
    """As a non-reentrant checkpoint does: nothing saved, the forward run once more.

    ``torch.utils.checkpoint`` itself would load the compiler (seconds) for one setting.
    """
    count = 0
    again: list[Tensor] = []

    def pack(_: Tensor) -> int:
        nonlocal count
        count += 1
        return count - 1

    def keep(saved: Tensor) -> Tensor:
        again.append(saved.detach())
        return saved

    def unpack(index: int) -> Tensor:
        if not again:
            leaves = [t.detach().requires_grad_(t.requires_grad) for t in q.leaves]
            hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t)
            with torch.enable_grad(), hooks:
                q.run(*leaves)
        return again[index]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        outs = q.run(*q.leaves)
    return pull(outs, q.leaves, q.cotangents)


def _func(q: Question) -> Grads:
    still = [t.detach() for t in q.leaves]
    pulled: Any = torch.func.vjp(q.run, *still)
    return list(pulled[1](tuple(q.cotangents)))


def _compile(q: Question) -> Grads:
    """With the backend that the engine's name ends in."""
    from gradproof.adapters.torch_compiled import compiled

    state = q.program.state
    before = state.read()
    eager = [t.detach() for t in q.forward(q.again())]
    draws = drawn(before, state.read())
    with compiled(q.program, q.engine.removeprefix(COMPILE).strip()) as (made, counted):
        state.again()
        outs = made(q.leaves)
        grads = pull(outs, q.leaves, q.cotangents)
    if not counted.graphs:
        q.effects.append(Effect(RAN_EAGERLY, "torch.compile", ""))
    for path, t, plain in zip(
        [out.path for out in q.program.outs], outs, eager, strict=True
    ):
        off = _differing(t.detach(), plain)
        if off and draws:
            raise NotCompiled("torch.compile makes it draw other random numbers")
        if off:
            detail = f"{off} of {plain.numel()} values differ from the eager ones"
            q.effects.append(Effect("compiler-mismatch", path, detail))
    return grads


# --- batches ---------------------------------------------------------------------------


def _batched(q: Question) -> Grads:
    """The backward of two cotangents at once."""
    first = other_cotangents(q.cotangents)
    alone = _plainly(q, first)
    both = [torch.stack(pair) for pair in zip(first, q.cotangents, strict=True)]
    grads = pull(q.forward(q.leaves), q.leaves, both, batched=True)
    lanes = [[None if g is None else g[k] for g in grads] for k in (0, 1)]
    return _worse(q, alone, lanes[0], lanes[1])


def _plainly(q: Question, cotangents: list[Tensor]) -> Grads:
    """The vjp of one cotangent, from tensors of its own."""
    leaves = q.again()
    return _copied(pull(q.forward(leaves), leaves, cotangents))


def _copied(grads: Grads) -> Grads:
    """What a rule returned, safe from what it does to its own buffers later."""
    return [None if g is None else g.clone() for g in grads]


def _vmap(q: Question) -> Grads:
    """Two calls in one batch: at another point, and at x.

    An input that is not batched gets the sum of both gradients; the other's is taken
    off it.
    """
    axes = tuple(
        None if word == "-" else int(word)
        for word in q.engine.removeprefix(VMAP).strip().split(",")
    )
    other, at_other = _other_call(q, axes)
    first = other_cotangents(q.cotangents)
    alone = _copied(pull(at_other, other, first))
    with torch.no_grad():
        at_x = q.forward(q.leaves)
    batch = [
        (t if axis is None else torch.stack([o, t], axis)).detach().requires_grad_()
        for o, t, axis in zip(other, q.leaves, axes, strict=True)
    ]
    outs = torch.func.vmap(q.run, axes, randomness="same")(*batch)
    _same_values(q, outs, at_other, at_x)
    both = [torch.stack(pair) for pair in zip(first, q.cotangents, strict=True)]
    lanes: tuple[Grads, Grads] = ([], [])
    for g, a, axis in zip(pull(outs, batch, both), alone, axes, strict=True):
        if g is None or axis is not None:
            lanes[0].append(None if g is None else g.select(axis or 0, 0))
            lanes[1].append(None if g is None else g.select(axis or 0, 1))
        else:
            lanes[0].append(a)
            lanes[1].append(g if a is None else g - a)
    return _worse(q, alone, *lanes)


def _other_call(
    q: Question, axes: tuple[int | None, ...]
) -> tuple[list[Tensor], list[Tensor]]:
    """Leaves at another point, shared inputs kept, and what the function gives there."""
    for flip, scale in ELSEWHERE:
        moved = elsewhere(q.leaves, flip=flip, scale=scale)
        other = [
            (t.detach() if axis is None else m).requires_grad_()
            for t, m, axis in zip(q.leaves, moved, axes, strict=True)
        ]
        try:
            return other, q.forward(other)
        except Exception:
            if (flip, scale) == ELSEWHERE[-1]:
                raise
    raise AssertionError("there is always a last point")


def _same_values(
    q: Question, outs: Sequence[Tensor], first: list[Tensor], second: list[Tensor]
) -> None:
    """Note an output whose lanes are not what each call gives alone."""
    for path, t, *lanes in zip(
        [out.path for out in q.program.outs], outs, first, second, strict=True
    ):
        for k, alone in enumerate(lanes):
            off = _differing(t[k].detach(), alone.detach())
            if off:
                detail = (
                    f"{off} of {alone.numel()} entries of call {k + 1} of a batch of 2 "
                    f"differ from the call alone"
                )
                q.effects.append(Effect("wrong-vmap", path, detail))
                break


def _differing(got: Tensor, want: Tensor) -> int:
    """How many entries differ by more than another order of summing explains."""
    finite = want[want.isfinite()].abs()
    top = float(finite.max()) if finite.numel() else 0.0
    room = torch.finfo(want.dtype).eps ** 0.5 * top
    same = ((got - want).abs() <= room) | (got == want) | (got.isnan() & want.isnan())
    return int((~same).sum())


# Lanes that are nearer than this to the call alone, relative to their leaf and in units
# of its roundoff, need no second look.
_NEAR = 64.0


def _worse(q: Question, alone: Grads, first: Grads, second: Grads) -> Grads:
    """The second lane, or the plain answer with the first's error where that is larger.

    ``alone`` is the answer to the first call without a batch.
    """
    gap = _gap(first, alone)
    unit = max((torch.finfo(t.dtype).eps for t in q.leaves), default=0.0)
    if gap <= _NEAR * unit:
        return second
    plain = _plainly(q, q.cotangents)
    if gap <= _gap(second, plain):
        return second
    return [
        p if p is None or f is None or a is None else p + (f - a)
        for p, f, a in zip(plain, first, alone, strict=True)
    ]


def _gap(got: Grads, want: Grads) -> float:
    """The largest difference relative to its leaf; 0 where there is no finite answer."""
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if w is None or not w.numel() or not bool(w.isfinite().all()):
            continue
        gap = (w if g is None else g - w).abs().nan_to_num(nan=torch.inf).max()
        if float(gap) > 0:
            top = float(w.abs().max())
            worst = max(worst, float(gap) / top if top > 0 else torch.inf)
    return worst


def _edited(q: Question) -> Grads:
    """Other numbers written into inputs between the forward and the backward.

    As an optimiser's step or an activation in place would. The engine raises where a
    saved tensor was one of them; what is answered all the same must be the answer for
    the numbers that the forward saw.
    """
    with packing() as packed:
        outs = q.forward(q.leaves)
    if packed:
        raise Refused  # what was saved is not for the rule to say
    chosen = [q.leaves[int(i)] for i in q.engine.split(" ")[1].split(",")]
    with torch.no_grad():
        for t, other in zip(
            chosen, elsewhere(chosen, flip=True, scale=0.875), strict=True
        ):
            t.copy_(other)
    try:
        return pull(outs, q.leaves, q.cotangents)
    except Exception as error:
        raise Refused from error


def _autocast(q: Question) -> Grads:
    try:
        with patience(allowance(lambda: q.forward(q.again()))):
            return under_autocast(q.program, q.leaves, q.cotangents)
    except TooLong as late:  # a solver that cannot converge in so few digits
        raise NotUnderAutocast from late


_ENGINES: dict[str, Callable[[Question], Grads]] = {
    BACKWARD: _backward,
    CREATE_GRAPH: _create_graph,
    CHECKPOINT: _checkpoint,
    FUNC: _func,
    BATCHED_GRAD: _batched,
    VMAP: _vmap,
    AUTOCAST: _autocast,
    COMPILE: _compile,
    EDITED: _edited,
}
