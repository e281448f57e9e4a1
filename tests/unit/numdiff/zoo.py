"""Functions with a known derivative, or a known reason why they have none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

DOUBLE, SINGLE = 2.0**-53, 2.0**-24
AT_ZERO = 2.0**-52  # a grain for points at 0, whose own spacing says nothing


@dataclass(frozen=True)
class Case:
    """``codes``: what a thorough answer may be; OK must then be right.

    ``slopes`` are the one-sided ones of a KINK. ``piecewise``: smooth only at a scale
    that four values do not see, so that the quick plan is not held to it.
    """

    name: str
    f: Callable[[float], float]
    true: float = math.nan
    x: float = 1.0
    codes: tuple[str, ...] = ("OK",)
    slopes: tuple[float, float] | None = None
    reach: float = 1.0
    grain: float | None = None
    unit: float = DOUBLE
    low: float = -math.inf
    high: float = math.inf
    piecewise: bool = False

    @property
    def step(self) -> float:
        return self.grain or float(np.spacing(abs(self.x)))

    def phi(self, t: float) -> np.ndarray:
        return np.array([float(self.f(self.x + t))])


def _hash(x: float) -> float:
    """A standard normal number that depends on the bits of x."""
    return float(
        np.random.default_rng(int(np.float64(x).view(np.uint64))).standard_normal()
    )


def _newton(x: float, tolerance: float = 1e-6) -> float:
    y = 1.0
    while abs(y**3 + y - 3 * x) > tolerance:
        y -= (y**3 + y - 3 * x) / (3 * y * y + 1)
    return y


def _bisection(x: float) -> float:
    a, b = 0.0, 4.0
    while b - a > 1e-6:
        middle = 0.5 * (a + b)
        a, b = (a, middle) if middle**3 + middle > 3 * x else (middle, b)
    return 0.5 * (a + b)


def _fixed_point(x: float, tolerance: float = 1e-5) -> float:
    y = 0.0
    for _ in range(500):
        new = math.cos(0.7 * y * x)
        if abs(new - y) < tolerance:
            return new
        y = new
    return y


def _fixed_point_slope(x: float) -> float:
    y = _fixed_point(x, 1e-15)
    s = math.sin(0.7 * y * x)
    return -0.7 * s * y / (1 + 0.7 * s * x)


ROOT = 3 / (3 * _newton(1.0, 1e-15) ** 2 + 1)
NODES = np.linspace(-3, 3, 61)
HEIGHTS = np.sin(NODES)


def _between(x: float) -> float:
    return float(np.interp(x, NODES, HEIGHTS))


def _slope(k: int) -> float:
    return float((HEIGHTS[k + 1] - HEIGHTS[k]) / (NODES[k + 1] - NODES[k]))


def _single(x: float) -> np.float32:
    return np.float32(x)


def _where_positive(f: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: f(x) if x > 0 else math.nan


SMOOTH = (
    Case("cube at 0", lambda x: x**3, 0, x=0, grain=AT_ZERO),
    Case("square at 0", lambda x: x * x, 0, x=0, grain=AT_ZERO),
    Case("x|x| at 0", lambda x: x * abs(x), 0, x=0, grain=AT_ZERO),
    Case("cube + 1 at 0", lambda x: 1 + x**3, 0, x=0, grain=AT_ZERO),
    Case("sine at 0", math.sin, 1, x=0, grain=AT_ZERO),
    Case("ELU at 0", lambda x: x if x > 0 else math.expm1(x), 1, x=0, grain=AT_ZERO),
    Case("Huber at its knee", lambda x: x * x / 2 if abs(x) < 1 else abs(x) - 0.5, 1),
    Case("constant", lambda x: 3.7, 0),
    Case("zero", lambda x: 0.0, 0),
    Case("linear", lambda x: 3.3 * x, 3.3),
    Case("linear, tiny", lambda x: 3e-13 * x, 3e-13),
    Case("linear, huge", lambda x: 3e8 * x, 3e8),
    Case(
        "linear, cancelled", lambda x: x * 3.2519978374491334 + 15.5,
        3.2519978374491334, x=-4.784169829877467, reach=4,
    ),
    Case("1 + 1e-8 x", lambda x: 1 + 1e-8 * x, 1e-8),
    Case("1e9 + 1e-9 x", lambda x: 1e9 + 1e-9 * x, 1e-9),
    Case("1e9 + sin x", lambda x: 1e9 + math.sin(x), math.cos(1)),
    Case("sin 1e4 x", lambda x: math.sin(1e4 * x), 1e4 * math.cos(1e4)),
    Case("exp 20 x", lambda x: math.exp(20 * x), 20 * math.exp(20)),
    Case("exp 300 x", lambda x: math.exp(300 * x), 300 * math.exp(300)),
    Case("exp -x/1e6", lambda x: math.exp(-x / 1e6), -1e-6 * math.exp(-1e-6)),
    Case("steep tanh", lambda x: math.tanh(1e5 * (x - 1)), 1e5),
    Case("pole at 0.01", lambda x: 1 / (x - 0.99) if x != 0.99 else math.inf, -1e4),
    Case("max, far from the tie", lambda x: max(x, 0.3), 1),
    Case("between two nodes", _between, _slope(40), x=1.05),
    Case("float32", lambda x: np.sin(_single(x)), math.cos(1), grain=2.0**-23, unit=SINGLE),
    Case(
        "float16 at 300", lambda x: np.sqrt(np.float16(x)), 0.5 / math.sqrt(300), x=300,
        reach=256, grain=0.25, unit=2.0**-11,
    ),
)  # fmt: skip

NEAR = (
    Case("ReLU, 4e-7 above", lambda x: max(x - 1 + 4e-7, 0), 1),
    Case("ReLU, 4e-7 below", lambda x: max(x - 1 - 4e-7, 0), 0),
    Case("ReLU, 1e-13 above", lambda x: max(x - 1 + 1e-13, 0), 1, codes=("OK", "KINK")),
    Case("ReLU, 0.01 below", lambda x: max(x - 1.01, 0), 0),
    Case("soft shrinkage", lambda x: x - 0.5 if x > 0.5 else min(x + 0.5, 0), 0, x=0.49),
    Case("dead zone", lambda x: max(x - 1.001, 0) + max(0.9 - x, 0), 0),
    Case("two kinks", lambda x: min(max(x - 1 + 1e-4, 0), 2e-4), 1),
    Case("floor, off a step", math.floor, 0, x=1.3),
    Case("floor, several steps", math.floor, 0, x=8.01, reach=8),
    Case("round + x", lambda x: round(x) + x, 1, x=0.2, reach=0.25),
    Case("x mod 1", lambda x: x % 1.0, 1, x=1.3),
    Case("log at 1e-7", _where_positive(math.log), 1e7, x=1e-7),
    Case("sqrt at 1e-6", _where_positive(math.sqrt), 500, x=1e-6),
    Case(
        "arccos near 1", lambda x: math.acos(x) if abs(x) <= 1 else math.nan,
        -1 / math.sqrt(1 - 0.999**2), x=0.999,
    ),
    Case("only upwards", lambda x: x * x + math.sin(x), 1, x=0, grain=AT_ZERO, low=0),
    Case("only downwards", lambda x: x * x + math.sin(x), 1, x=0, grain=AT_ZERO, high=0),
    Case("hardly down", lambda x: x * x + x, 1, x=0, grain=AT_ZERO, low=-1e-6),
)  # fmt: skip

KINKS = (
    Case("|x|", abs, x=0, grain=AT_ZERO, codes=("KINK",), slopes=(-1, 1)),
    Case("1e3 + |x|", lambda x: 1e3 + abs(x), x=0, grain=AT_ZERO, codes=("KINK",),
         slopes=(-1, 1)),
    Case("sin x + |x|/1000", lambda x: math.sin(x) + 1e-3 * abs(x), x=0, grain=AT_ZERO,
         codes=("KINK",), slopes=(0.999, 1.001)),
    Case("ReLU", lambda x: max(x, 0.0), x=0, grain=AT_ZERO, codes=("KINK",), slopes=(0, 1)),
    Case("leaky ReLU + exp", lambda x: max(x, x / 10) + math.exp(x), x=0, grain=AT_ZERO,
         codes=("KINK",), slopes=(1.1, 2)),
    Case("|x| in float32", lambda x: abs(_single(x)) * _single(1.7), x=0, grain=2.0**-23,
         unit=SINGLE, codes=("KINK",), slopes=(-1.7, 1.7)),
    Case("at a node", _between, x=float(NODES[41]), codes=("KINK",),
         slopes=(_slope(40), _slope(41))),
    Case("a tie of three", lambda x: max(x, 1.0, 2 - x), codes=("KINK",), slopes=(-1, 1)),
    Case("clamp at its bound", lambda x: min(x, 1.0), codes=("KINK",), slopes=(1, 0)),
)  # fmt: skip

NONE = (
    Case("sign", np.sign, x=0, grain=AT_ZERO, codes=("JUMP",)),
    Case("step", lambda x: x * x + (x >= 1), codes=("JUMP",)),
    Case("round at a half", round, x=0.5, codes=("JUMP",)),
    Case("floor at 1", math.floor, codes=("JUMP",)),
    Case("x mod 1 at 1", lambda x: x % 1.0, codes=("JUMP",)),
    Case("noise alone", _hash, codes=("NOISE",)),
    Case("infinite slope", lambda x: math.sqrt(abs(x)), x=0, grain=AT_ZERO,
         codes=("KINK", "NOISE")),
    Case("infinite at the edge", lambda x: math.sqrt(x) if x >= 0 else math.nan, x=0,
         grain=AT_ZERO, codes=("NOISE", "DOMAIN")),
    Case("infinite value", lambda x: 1 / x if x else math.inf, x=0, grain=AT_ZERO,
         codes=("DOMAIN",)),
    Case("nowhere finite", lambda x: math.nan, codes=("DOMAIN",)),
    Case("finite at x alone", lambda x: 1.0 if x == 1 else math.nan, codes=("DOMAIN",)),
    Case("no room", lambda x: x * x, reach=1e-3, grain=2e-3, codes=("SCALE",)),
    Case("multiples of 1e-3", lambda x: round(math.sin(x) * 1e3) / 1e3,
         codes=("NOISE", "JUMP"), piecewise=True),
    Case("x to 1e-3", lambda x: math.sin(round(x * 1e3) / 1e3),
         codes=("NOISE", "JUMP"), piecewise=True),
)  # fmt: skip

NOISY = (
    Case("sine and noise", lambda x: math.sin(x) + 1e-4 * _hash(x), math.cos(1)),
    Case("1 and noise", lambda x: 1 + 1e-9 * _hash(x), 0),
    Case("multiples of 1e-5", lambda x: round(math.sin(x) * 1e5) / 1e5, math.cos(1),
         codes=("OK", "NOISE"), piecewise=True),
    Case("float32 inside", lambda x: np.sin(_single(x)), math.cos(1), piecewise=True),
    Case("float32 in part", lambda x: x + float(_single(100) * _single(x) ** 2), 201,
         piecewise=True),
    Case("bisection stopped early", _bisection, ROOT, piecewise=True),
    Case("fixed point stopped early", _fixed_point, _fixed_point_slope(1.0),
         piecewise=True),
)  # fmt: skip

ALL = SMOOTH + NEAR + KINKS + NONE + NOISY
