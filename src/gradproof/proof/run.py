"""One proof under way: how far to go, and what has been gathered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gradproof.oracles import Differences, best
from gradproof.rule import Primal, Reply, Rule
from gradproof.space import Space, Vector
from gradproof.verdict import (
    Form,
)

WHOLE_SECONDS = 2.0  # nor one that would take longer than this, as planned beforehand


@dataclass(frozen=True)
class Options:
    """How far to go. ``tolerate`` and ``resolve`` are relative errors."""

    seed: int = 0
    tolerate: float = 0.0
    resolve: float | None = None
    orders: int = 1
    allow: tuple[str, ...] = ()
    ways: bool = True
    compile: str = ""  # the backend of the compiler that is asked too
    seconds: float = WHOLE_SECONDS
    tell: Callable[[str, float], None] | None = None  # how far it is: stage, share done

    def reached(self, stage: str, share: float) -> None:
        """Tell whoever waits."""
        if self.tell is not None:
            self.tell(stage, share)


@dataclass(eq=False)
class Run:
    """One proof under way: the rule, its point, and what has been gathered."""

    rule: Rule
    options: Options
    rng: np.random.Generator
    x: Vector
    value: Vector
    ybar: Vector
    other: Vector
    got: Vector
    own: Vector
    form: Form = field(default_factory=Form)
    vjps: int = 0
    oracles: list[tuple[Primal, Vector, Differences]] = field(default_factory=list)

    def best(self, primal: Primal, x: Vector) -> Differences:
        """What is differenced at ``x``, chosen once."""
        for known, at, oracle in self.oracles:
            if known is primal and np.array_equal(at, x):
                return oracle
        oracle = best(primal, x)
        self.oracles.append((primal, x, oracle))
        return oracle

    @property
    def domain(self) -> Space:
        """Where x lives."""
        return self.rule.primal.domain

    @property
    def codomain(self) -> Space:
        """Where the value and ȳ live."""
        return self.rule.primal.codomain


def must(reply: Reply, size: int) -> Vector:
    """The value at the point, which the adapter has seen before."""
    return np.full(size, np.nan) if reply.value is None else reply.value


def seconds_of(call: Callable[[], object]) -> float:
    """What a call takes; the second time where the first was slow to start."""
    taken = []
    for _ in range(2):
        clock = time.perf_counter()
        call()
        taken.append(time.perf_counter() - clock)
        if taken[0] > 1.0:
            break
    return min(taken)
