"""Evidence made of arrays, as a check would have gathered it; and answers to requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from planted_rules import Case, jacobian, space_of, split, to_flat

from gradproof.diagnosis import diagnose, requests
from gradproof.space import unit
from gradproof.verdict import Block, Code, Estimate, Evidence, Linearity, Probe, Source

Vjp = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (x, ȳ) → x̄
# (bar, bound) of the oracle, relative to the size of what it measures.
ORACLE = {"float64": (1e-11, 4e-10), "float32": (2e-6, 4e-5)}


@dataclass(eq=False)
class Bench:
    """One right rule with a plant, and an oracle of the ordinary quality."""

    case: Case
    precision: str
    vjp: Vjp | None
    rng: np.random.Generator

    def __post_init__(self) -> None:
        arrays = list(self.case.inputs.items())
        self.domain = space_of(arrays, self.precision)
        self.x = self.domain.snap(to_flat(a for _, a in arrays))
        outs = self.case.f(*split(self.domain, self.x))
        names = ["y"] if len(outs) == 1 else [f"y[{k}]" for k in range(len(outs))]
        self.codomain = space_of(zip(names, outs, strict=True), self.precision)
        self.y = to_flat(outs)
        # Several benches of one case share its Jacobians, which are the expensive part.
        self._known: dict[bytes, np.ndarray] = self.case.known

    def f(self, x: np.ndarray) -> np.ndarray:
        try:
            with np.errstate(all="ignore"):
                return to_flat(self.case.f(*split(self.domain, x)))
        except np.linalg.LinAlgError:
            return np.full(self.codomain.size, np.nan)

    def jac(self, x: np.ndarray) -> np.ndarray:
        key = x.tobytes()
        if key not in self._known:
            self._known[key] = jacobian(self.f, x)
        return self._known[key]

    def ask(self, x: np.ndarray, ybar: np.ndarray) -> np.ndarray:
        """The rule's answer, rounded as its precision would."""
        exact = self.jac(x).T @ ybar if self.vjp is None else self.vjp(x, ybar)
        size = np.abs(exact) + 0.1 * np.abs(self.jac(x).T) @ np.abs(ybar)
        fuzz = unit(self.precision) * self.rng.uniform(-1, 1, len(exact)) * size
        with np.errstate(all="ignore"):
            narrow = exact.astype(np.float32).astype(float) == exact
        still = narrow | ~np.isfinite(exact)
        return np.where(still, exact, exact + np.where(still, 0.0, fuzz))

    def own(self, x: np.ndarray, ybar: np.ndarray, got: np.ndarray) -> np.ndarray:
        size = np.abs(self.jac(x).T) @ np.abs(ybar)
        top = max(float(size.max(initial=0.0)), 1e-300)
        return 8 * unit(self.precision) * (np.nan_to_num(np.abs(got)) + 0.5 * top)

    def block(self, x: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> Block:
        m = self.codomain.size
        implied = np.array([self.ask(x, np.eye(m)[i])[cols] for i in rows])
        implied = implied.reshape(len(rows), len(cols))
        own = np.array(
            [self.own(x, np.eye(m)[i], self.ask(x, np.eye(m)[i]))[cols] for i in rows]
        ).reshape(implied.shape)
        true = self.jac(x)[np.ix_(rows, cols)]
        size = np.abs(true) + 0.3 * np.abs(true).max(initial=1e-300)
        bar, bound = (k * size for k in ORACLE[self.precision])
        value = true + bar * self.rng.uniform(-1, 1, true.shape)
        nan = np.full(true.shape, np.nan)
        code = np.where(np.isfinite(true), Code.OK, Code.DOMAIN).astype(np.int8)
        return Block(rows, cols, implied, value, bar, bound, code, own, nan, nan)

    def probe(self, x: np.ndarray, ybar: np.ndarray) -> Probe:
        got = self.ask(x, ybar)
        true = self.jac(x).T @ ybar
        size = np.abs(self.jac(x).T) @ np.abs(ybar)
        size = size + 0.3 * size.max(initial=1e-300)
        bar, bound = (k * size for k in ORACLE[self.precision])
        value = true + bar * self.rng.uniform(-1, 1, true.shape)
        expected = Estimate(
            value, bar, bound, np.zeros_like(bar), np.zeros(len(bar), np.int8)
        )
        return Probe(x, ybar, got, expected, self.own(x, ybar, got))

    def linearity(self, ybar: np.ndarray, other: np.ndarray) -> Linearity:
        once = self.ask(self.x, ybar)
        finite = np.isfinite(once)

        def fine(v: np.ndarray) -> np.ndarray:
            return np.where(finite, v, 0.0)

        # A rule answers equal questions with equal bits, whatever its rounding.
        def answer(v: np.ndarray, base: np.ndarray, k: float) -> np.ndarray:
            got = fine(self.ask(self.x, v))
            same = fine(base) * k
            near = np.abs(got - same) <= 8 * unit(self.precision) * np.abs(same)
            return np.where(near, same, got)

        def again(v: np.ndarray) -> np.ndarray:
            got = fine(self.ask(self.x, v))
            near = np.abs(got - fine(once)) <= 8 * unit(self.precision) * np.abs(got)
            return np.where(near, fine(once), got)

        def scaled(k: float) -> np.ndarray:
            got = again(k * ybar)
            return got if np.array_equal(got, fine(once)) else answer(k * ybar, once, k)

        share = {"float64": 1e-7, "float32": 2e-4}[self.precision]
        slack = 2 * share * np.abs(fine(once)).max(initial=0.0) + 8 * self.own(
            self.x, ybar, fine(once)
        )
        return Linearity(
            ybar, other, -4.0, again(np.zeros_like(ybar)), fine(once), scaled(-4.0),
            fine(self.ask(self.x, other)), fine(self.ask(self.x, ybar + other)),
            scaled(1024.0), 1024.0, slack,
        )  # fmt: skip

    def evidence(self) -> Evidence:
        ybar, other = self.codomain.draw(self.rng), self.codomain.draw(self.rng)
        m, n = self.codomain.size, self.domain.size
        return Evidence(
            name=self.case.name,
            domain=self.domain,
            codomain=self.codomain,
            point=self.x,
            value=self.y,
            scalars=tuple(self.case.scalars.items()),
            source=Source("Op"),
            linearity=self.linearity(ybar, other),
            block=self.block(self.x, np.arange(m), np.arange(n)),
            probes=(self.probe(self.x, ybar), self.probe(self.x, other)),
        )

    def answer(self, request: requests.Request, evidence: Evidence) -> object:
        match request:
            case requests.At():
                return self.probe(self.domain.snap(request.x), request.ybar)
            case requests.Block():
                return self.block(self.x, request.rows, request.cols)
            case requests.BlockAt():
                return self.block(
                    self.domain.snap(request.x), request.rows, request.cols
                )
        return None


def diagnosed(bench: Bench, evidence: Evidence | None = None, rounds: int = 3):
    """Diagnosis with its requests answered, as a proof would."""
    e = bench.evidence() if evidence is None else evidence
    found = diagnose(e)
    for _ in range(rounds):
        if not found.requests:
            break
        more = tuple((r.key, bench.answer(r, e)) for r in found.requests)
        e = replace(e, answers=e.answers + more)
        found = diagnose(e)
    return found


def leading(bench: Bench) -> str:
    found = diagnosed(bench).findings
    return found[0].slug if found else ""


__all__ = ["Bench", "Code", "diagnosed", "leading"]
