"""One function at a time: the value is right, or the code says why there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from zoo import ALL, KINKS, NEAR, NOISY, NONE, SMOOTH, Case

from gradproof.numdiff import differentiate
from gradproof.space import Leaf, Space, unit
from gradproof.verdict import Code, Estimate


def ask(case: Case, plan: str = "thorough") -> Estimate:
    return differentiate(
        case.phi, reach=case.reach, grain=case.step, unit=case.unit, low=case.low,
        high=case.high, plan=plan,
    )  # fmt: skip


def within(case: Case, e: Estimate) -> bool:
    return bool(abs(e.value[0] - case.true) <= e.bound[0] + 4e-16 * abs(case.true))


@pytest.mark.parametrize("case", SMOOTH + NEAR + NOISY, ids=lambda c: c.name)
def test_value_is_within_bound(case: Case) -> None:
    e = ask(case)
    assert Code(e.code[0]).name in case.codes
    assert e.code[0] != Code.OK or within(case, e)


@pytest.mark.parametrize(
    ("name", "sharp"),
    [
        ("linear", 1e-14),
        ("linear, tiny", 1e-14),
        ("linear, huge", 1e-14),
        ("linear, cancelled", 1e-13),
        ("exp -x/1e6", 1e-8),
        ("exp 20 x", 1e-10),
        ("exp 300 x", 1e-6),
        ("sin 1e4 x", 1e-6),
        ("steep tanh", 1e-6),
        ("1e9 + sin x", 1e-4),
        ("Huber at its knee", 1e-6),
        ("between two nodes", 1e-10),
        ("float32", 1e-4),
    ],
)
def test_bound_is_sharp(name: str, sharp: float) -> None:
    case = next(c for c in SMOOTH if c.name == name)
    assert ask(case).bound[0] <= sharp * abs(case.true)


def test_what_is_zero_is_sharp_too() -> None:
    for name, sharp in (("constant", 1e-14), ("zero", 1e-300), ("1e9 + 1e-9 x", 1e-4)):
        case = next(c for c in SMOOTH if c.name == name)
        assert ask(case).bound[0] <= sharp


@pytest.mark.parametrize("case", KINKS, ids=lambda c: c.name)
def test_kink_has_both_slopes(case: Case) -> None:
    e = ask(case)
    assert e.code[0] == Code.KINK
    assert e.left is not None
    assert e.right is not None
    assert case.slopes is not None
    room = 0.01 * abs(case.slopes[1] - case.slopes[0])
    assert abs(e.left[0] - case.slopes[0]) < room
    assert abs(e.right[0] - case.slopes[1]) < room
    assert math.isinf(e.bound[0])


@pytest.mark.parametrize("case", NONE, ids=lambda c: c.name)
def test_no_derivative_is_said_so(case: Case) -> None:
    assert Code(ask(case).code[0]).name in case.codes


@pytest.mark.parametrize(
    "case", [c for c in ALL if not c.piecewise], ids=lambda c: c.name
)
def test_quick_is_within_bound_where_it_answers(case: Case) -> None:
    e = ask(case, "quick")
    if e.code[0] != Code.OK:
        return
    if case.slopes is not None:
        assert max(abs(e.value[0] - s) for s in case.slopes) <= e.bound[0]
    elif not math.isnan(case.true):
        assert within(case, e)


def test_quick_does_not_take_a_coarse_grid_for_a_constant() -> None:
    e = differentiate(
        lambda t: np.array([round(math.sin(1 + t) * 1e3) / 1e3]),
        reach=1.0, grain=2.0**-52, unit=2.0**-53, plan="quick",
    )  # fmt: skip
    assert e.value[0] == 0
    assert e.bound[0] > math.cos(1)


def test_quick_takes_few_values() -> None:
    def phi(t: float) -> np.ndarray:
        return np.array([math.exp(1 + t)])

    e = differentiate(phi, reach=1.0, grain=2.0**-52, unit=2.0**-53, plan="quick")
    assert e.evaluations == 5
    e = differentiate(
        phi, reach=1.0, grain=2.0**-52, unit=2.0**-53, plan="quick", start=phi(0.0)
    )
    assert e.evaluations == 4
    assert e.steps == (2.0**-16, 2.0**-15)


def test_thorough_takes_at_most_sixty_values_where_it_is_smooth() -> None:
    e = ask(Case("exp", math.exp, math.e))
    assert 30 <= e.evaluations <= 60


def test_outputs_do_not_spoil_each_other() -> None:
    single = [c for c in SMOOTH + NEAR + KINKS if c.x == 1 and c.unit == 2.0**-53]
    single = [
        c for c in single if c.reach == 1 and not c.grain and c.low < -1 < 1 < c.high
    ]
    assert len(single) > 15

    def phi(t: float) -> np.ndarray:
        return np.array([float(c.f(1 + t)) for c in single])

    together = differentiate(phi, reach=1.0, grain=2.0**-52, unit=2.0**-53)
    for i, case in enumerate(single):
        alone = ask(case)
        assert together.code[i] == alone.code[0], case.name
        if alone.code[0] == Code.OK:
            assert together.value[i] == pytest.approx(
                alone.value[0], rel=1e-12, abs=1e-15
            )
            assert abs(together.value[i] - case.true) <= together.bound[i] + 1e-15


def test_many_outputs_are_the_same_as_few() -> None:
    x = np.linspace(-2, 2, 700)

    def phi(t: float) -> np.ndarray:
        return np.sin(x + t)

    e = differentiate(phi, reach=1.0, grain=2.0**-52, unit=2.0**-53)
    assert e.value.shape == (700,)
    assert (np.abs(e.value - np.cos(x)) <= e.bound).all()
    assert (e.code == Code.OK).all()


@pytest.mark.parametrize("plan", ["quick", "thorough"])
def test_nothing_is_asked_outside_the_range(plan: str) -> None:
    asked: list[float] = []

    def phi(t: float) -> np.ndarray:
        asked.append(t)
        return np.array([math.sqrt(0.25 + t)])

    e = differentiate(
        phi, reach=1.0, grain=2.0**-54, unit=2.0**-53, low=-0.25, high=0.125, plan=plan
    )
    assert min(asked) >= -0.25
    assert max(asked) <= 0.125
    assert abs(e.value[0] - 1.0) <= e.bound[0]


@pytest.mark.parametrize("plan", ["quick", "thorough"])
def test_no_outputs_give_no_answers(plan: str) -> None:
    e = differentiate(
        lambda t: np.zeros(0), reach=1.0, grain=2.0**-52, unit=2.0**-53, plan=plan
    )
    assert e.value.shape == (0,)


@pytest.mark.parametrize("plan", ["quick", "thorough"])
@pytest.mark.parametrize(
    "value",
    [
        lambda t: math.nan,
        lambda t: math.inf,
        lambda t: math.nan if t else 1.0,
        lambda t: math.inf if t > 0 else -math.inf,
        lambda t: math.nan if 0 < abs(t) < 1e-2 else t,
    ],
    ids=["nan", "inf", "nan beside", "inf beside", "nan near"],
)
def test_what_is_not_finite_never_becomes_a_number(plan: str, value) -> None:
    e = differentiate(
        lambda t: np.array([value(t)]),
        reach=1.0,
        grain=2.0**-52,
        unit=2.0**-53,
        plan=plan,
    )
    assert e.code[0] == Code.DOMAIN
    assert math.isnan(e.value[0])
    assert math.isinf(e.bound[0])


def test_the_curve_shows_truncation_and_noise() -> None:
    e = ask(Case("sine", math.sin, math.cos(1)))
    assert e.curve is not None
    assert e.curve.x_name == "step"
    least = int(np.argmin(e.curve.y))
    assert 0 < least < len(e.curve.x) - 1
    assert e.curve.y[0] > 1e3 * e.curve.y[least]
    assert e.curve.y[-1] > 1e3 * e.curve.y[least]


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "float32", "float64"])
def test_a_pole_far_below_the_reach(precision: str) -> None:
    """Large steps cross it and see little of the slope: their scatter is no noise."""
    rng = np.random.default_rng(0)
    space = Space.of([Leaf("x", (1,), precision)])
    answered = 0
    for _ in range(60):
        x = space.snap(10.0 ** rng.uniform(-2.5, 0, 1) * rng.choice([-1, 1]))
        offset, size, power = *rng.normal(size=2), rng.choice([-1.0, -2.0])

        def phi(t, x=x, offset=offset, size=size, power=power):
            y = space.snap(x + t)
            with np.errstate(divide="ignore"):
                return space.snap(offset + space.snap(size * y**power))

        e = differentiate(
            phi, reach=2.0, grain=float(space.spacing(x)[0]), unit=unit(precision)
        )
        true = size * power * x ** (power - 1)
        answered += int(e.code[0] == Code.OK)
        assert e.code[0] != Code.OK or abs(e.value - true)[0] <= e.bound[0]
    assert answered >= 45
