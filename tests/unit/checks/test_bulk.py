"""The short way for what is large: right rules pass it, and nothing wrong does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gradproof
from gradproof import adapters
from gradproof.checks import bulk
from gradproof.checks.bulk import Question
from gradproof.checks.slabs import folded, slabs, spread, within
from gradproof.numdiff.pooled import Step
from gradproof.verdict import Verdict

Tensor = torch.Tensor
Grads = list[Tensor]
INDEX = torch.randint(0, 500, (700,), generator=torch.Generator().manual_seed(3))


def _softmax(g: Tensor, x: Tensor) -> Grads:
    p = x.softmax(-1)
    return [p * (g - (g * p).sum(-1, keepdim=True))]


def _norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    c = x - x.mean(-1, keepdim=True)
    return c * torch.rsqrt((c * c).mean(-1, keepdim=True) + 1e-5) * w + b


def _norm_back(g: Tensor, x: Tensor, w: Tensor, _: Tensor) -> Grads:
    c = x - x.mean(-1, keepdim=True)
    s = torch.rsqrt((c * c).mean(-1, keepdim=True) + 1e-5)
    u, inner = c * s, g * w
    along = (inner * u).mean(-1, keepdim=True)
    return [
        s * (inner - inner.mean(-1, keepdim=True) - u * along),
        (g * u).sum(0),
        g.sum(0),
    ]


@dataclass(frozen=True)
class Op:
    forward: Callable[..., Any]
    backward: Callable[..., Grads]
    shapes: tuple[tuple[int, ...], ...]


OPS = {
    "sin": Op(torch.sin, lambda g, x: [g * x.cos()], ((200, 30),)),
    "relu": Op(torch.relu, lambda g, x: [g * (x > 0)], ((6000,),)),
    "softmax": Op(lambda x: x.softmax(-1), _softmax, ((90, 64),)),
    "norm": Op(_norm, _norm_back, ((48, 128), (128,), (128,))),
    "matmul": Op(torch.matmul, lambda g, a, b: [g @ b.mT, a.mT @ g], ((48, 40), (40, 56))),
    "cumsum": Op(
        lambda x: x.sin().cumsum(-1),
        lambda g, x: [g.flip(-1).cumsum(-1).flip(-1) * x.cos()],
        ((40, 100),),
    ),
    "gather": Op(
        lambda x: x[INDEX],
        lambda g, x: [torch.zeros_like(x).index_add(0, INDEX, g)],
        ((500, 12),),
    ),
    "two": Op(lambda x: (x.sin(), x * x), lambda g, h, x: [g * x.cos() + 2 * h * x], ((3000,),)),
}  # fmt: skip


def _entry(g: Tensor) -> Tensor:
    out = g.clone().flatten()
    out[out.abs().argmax()] *= 1.5
    return out.reshape(g.shape)


def _tail(g: Tensor) -> Tensor:
    out = g.clone().flatten()
    out[-max(1, len(out) // 100) :] *= 1.2
    return out.reshape(g.shape)


def _alternating(g: Tensor) -> Tensor:
    sign = torch.ones_like(g).flatten()
    sign[1::2] = -1
    return g * (1 + 0.3 * sign.reshape(g.shape))


PLANTS: dict[str, Callable[[Grads], Grads]] = {
    "uniform 1 %": lambda gs: [1.01 * gs[0], *gs[1:]],
    "the last input by half": lambda gs: [*gs[:-1], 1.5 * gs[-1]],
    "zeros": lambda gs: [0 * gs[0], *gs[1:]],
    "one entry": lambda gs: [_entry(gs[0]), *gs[1:]],
    "the tail": lambda gs: [_tail(gs[0]), *gs[1:]],
    "alternating": lambda gs: [_alternating(gs[0]), *gs[1:]],
    "turned round": lambda gs: [gs[0].flip(0), *gs[1:]],
    "something added": lambda gs: [gs[0] + 0.01 * gs[0].abs().max(), *gs[1:]],
    "the sign": lambda gs: [*gs[:-1], -gs[-1]],
}


def _function(name: str, plant: Callable[[Grads], Grads] = lambda gs: gs) -> Any:
    op = OPS[name]

    class Op_(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Tensor) -> Any:
            ctx.save_for_backward(*xs)
            return op.forward(*xs)

        @staticmethod
        def backward(ctx: Any, *gs: Tensor) -> Any:
            return tuple(plant(op.backward(*gs, *ctx.saved_tensors)))

    return Op_


def _inputs(name: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        for shape in OPS[name].shapes
    )


def _asked(function: Any, xs: tuple[Tensor, ...], seed: int) -> Question | None:
    rule = adapters.adapt(function, xs, {}).bulk()
    assert rule is not None
    question = Question(rule, np.random.default_rng(seed))
    return question if bulk.agreed(question) else None


DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_a_right_rule_agrees_and_says_what_it_could_have_seen(
    name: str, dtype: torch.dtype
) -> None:
    seen = [_asked(_function(name), _inputs(name, dtype), seed) for seed in range(3)]
    assert all(a is not None for a in seen)
    limits = {limit.structure: limit.value for a in seen if a for limit in a.limits}
    assert limits["uniform"] < (1e-7 if dtype is torch.float64 else 5e-4)
    if dtype in (torch.bfloat16, torch.float16):
        narrow = "in " + str(dtype).removeprefix("torch.")
        assert 1e-3 < limits[narrow] < 0.1


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", OPS)
def test_nothing_wrong_agrees(name: str, plant: str, dtype: torch.dtype) -> None:
    function, xs = _function(name, PLANTS[plant]), _inputs(name, dtype)
    assert [_asked(function, xs, seed) for seed in (4, 5)] == [None, None]


@pytest.mark.parametrize("name", ["softmax", "norm", "matmul", "cumsum", "sin"])
def test_the_limits_are_neither_missed_nor_padded(name: str) -> None:
    xs = _inputs(name, torch.float64)
    right = _asked(_function(name), xs, 0)
    assert right is not None
    uniform = right.limits[0].value

    def scaled(by: float) -> Question | None:
        plant = lambda gs: [(1 + by) * g for g in gs]  # noqa: E731
        return _asked(_function(name, plant), xs, 0)

    assert scaled(1.2 * uniform) is None
    assert scaled(0.02 * uniform) is not None


WRONG_ELSEWHERE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "nothing for a cotangent of 0 is something": lambda g, x: g * x.cos() + 1e-3,
    "large cotangents are clipped": lambda g, x: g.clamp(-8, 8) * x.cos(),
    "the sign of the cotangent is lost": lambda g, x: g.abs() * x.cos(),
    "another answer every time": lambda g, x: g * x.cos() * (1 + 1e-4 * torch.rand(1)),
}


@pytest.mark.parametrize("what", WRONG_ELSEWHERE)
def test_what_is_no_vjp_does_not_agree(what: str) -> None:
    class Op_(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return WRONG_ELSEWHERE[what](g, *ctx.saved_tensors)

    assert _asked(Op_, _inputs("sin", torch.float64), 0) is None


def test_a_forward_with_a_memory_does_not_agree() -> None:
    calls = 0

    def forward(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return x.sin() + 1e-9 * calls

    assert _asked(forward, _inputs("sin", torch.float64), 0) is None


def test_a_staircase_is_left_to_the_long_way() -> None:
    def forward(x: Tensor) -> Tensor:
        return torch.round(x * 64) / 64 + 0 * x

    assert _asked(forward, _inputs("sin", torch.float64), 0) is None


def test_views_and_answers_that_share_memory_are_no_trouble() -> None:
    identity = Op(lambda x: x.view(-1), lambda g, x: [g.view(x.shape)], ((90, 64),))
    OPS["identity"] = identity
    try:
        for dtype in DTYPES:
            assert (
                _asked(_function("identity"), _inputs("identity", dtype), 0) is not None
            )
    finally:
        del OPS["identity"]


def test_the_record_of_what_is_large() -> None:
    x = torch.randn(3000, generator=torch.Generator().manual_seed(1))
    report = gradproof.check(_function("sin"), (x,))
    assert report.verdict is Verdict.PASS
    assert report.record.compared == (
        "2 direction-cotangent pairs and 3000 of 3000 gradient entries one by one"
    )
    assert set(report.detection_limit) == {"uniform", "one entry"}
    assert report.record.evaluations[0] < 12
    kinked = gradproof.check(_function("relu"), (_near_kinks(),), ways=False)
    assert kinked.record.left_out == ("2 of 6000 entries (kink)",)


def _near_kinks() -> Tensor:
    x = torch.rand(
        6000, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    x += 0.5
    x[:2] = 1e-9
    return x


def test_values_that_hide_errors_are_compared_elsewhere_too() -> None:
    x, w, b = _inputs("norm", torch.float64)
    given = (x, torch.ones_like(w), torch.zeros_like(b))
    report = gradproof.check(_function("norm"), given, ways=False)
    assert report.verdict is Verdict.PASS
    assert (
        "compared at other values too: at the inputs given some error could not show"
        in report.record.notes
    )
    forgets = lambda gs: [gs[0], gs[1], gs[2]]  # noqa: E731

    class Op_(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Tensor) -> Tensor:
            ctx.save_for_backward(*xs)
            return _norm(*xs)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            x, w, b = ctx.saved_tensors
            return tuple(forgets(_norm_back(g, x, torch.ones_like(w), b)))

    assert gradproof.check(Op_, given, ways=False).verdict is Verdict.FAIL


@pytest.mark.parametrize("power", [1, 2])
def test_a_lone_factor_of_1_hides_nothing(power: int) -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, s: Tensor) -> Tensor:
            ctx.save_for_backward(x, s)
            return x * s

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            x, s = ctx.saved_tensors
            return g * s**power, (g * x).sum()

    (x,) = _inputs("sin", torch.float64)
    one = torch.ones((), dtype=torch.float64)
    verdict = gradproof.check(Scaled, (x, one), ways=False).verdict
    assert verdict is (Verdict.PASS if power == 1 else Verdict.FAIL)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_an_elementwise_error_is_named_by_its_index_in_few_calls(
    dtype: torch.dtype,
) -> None:
    def plant(gs: Grads) -> Grads:
        out = gs[0].clone()
        out[123, 7] *= 1.5
        return [out]

    report = gradproof.check(_function("sin", plant), _inputs("sin", dtype), ways=False)
    assert report.verdict is Verdict.FAIL
    worst = report.findings[0].worst
    assert worst is not None
    assert worst.place.endswith("[123, 7]")
    assert (worst.wrong, worst.total) == (1, 6000)
    assert report.record.compared == (
        "2 direction-cotangent pairs and 6000 of 6000 gradient entries one by one"
    )
    forwards, backwards = report.record.evaluations
    assert forwards + backwards <= 40


def test_what_cancels_is_not_accused_of_its_rounding() -> None:
    class Gelu(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return torch.nn.functional.gelu(x)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            slope = 0.5 * (1 + torch.erf(x * 0.5**0.5))
            return g * (slope + x * torch.exp(-x * x / 2) * 0.3989422804014327)

    # Its slope is 0 at -0.7518, as the difference of two terms of 0.23.
    x = torch.linspace(-0.7523, -0.7513, 600)
    for seed in range(3):
        report = gradproof.check(Gelu, (x,), ways=False, seed=seed)
        assert report.verdict is Verdict.PASS, str(report)


def test_a_buffer_that_is_used_again_is_told_as_that() -> None:
    room = torch.empty(200, 30, dtype=torch.float64)

    class Op_(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return torch.mul(g, x.cos(), out=room)

    report = gradproof.check(Op_, _inputs("sin", torch.float64))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "reused-buffer"


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    most=st.integers(1, 40),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_pieces_cover_an_array_once_and_sums_are_those_of_the_whole(
    shape: tuple[int, ...], most: int, data: st.DataObject
) -> None:
    a = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float64)
    keep = tuple(data.draw(st.permutations(range(len(shape)))))
    keep = keep[: data.draw(st.integers(0, len(shape)))]
    seen = np.zeros(shape)
    cells = np.zeros(tuple(shape[axis] for axis in keep))
    for at in _pieces(shape, most):
        seen[at] += 1
        cells[within(at, keep)] += folded(np, a[at], keep)
    assert (seen == 1).all()
    others = tuple(axis for axis in range(len(shape)) if axis not in keep)
    whole = a.sum(axis=others)
    order = np.argsort(np.argsort(keep)) if keep else ()
    assert np.array_equal(cells, np.transpose(whole, order) if keep else whole)
    back = spread(np, cells, keep, len(shape)) + np.zeros(shape)
    assert np.array_equal(
        folded(np, back, keep) * 1.0, cells * (a.size // max(1, cells.size))
    )


def _pieces(shape: tuple[int, ...], most: int) -> Iterator[Any]:
    for at in slabs(shape, most):
        size = np.prod([s.stop - s.start for s in at])
        assert size <= max(most, 1)
        yield at


@given(st.floats(-3, 3), st.booleans(), st.sampled_from([2.0**-53, 2.0**-24]))
@settings(max_examples=80, deadline=None)
def test_pooled_slopes_are_within_their_bounds(
    x: float, near: bool, unit: float
) -> None:
    step = Step(unit, near=near and unit < 2.0**-40)
    low = np.float64 if unit < 2.0**-40 else np.float32

    def f(t: float) -> Any:
        return np.float64(
            np.sin(low(x + t)) if low is np.float64 else np.sin(low(x) + low(t))
        )

    values = step.values(f(0.0), *(f(t) for t in step.steps))
    noise = step.floor(values.first, f(0.0), 1.0, 4.0)
    slope, bound = step.slope(values, noise)
    assert abs(slope - np.cos(float(low(x)))) <= bound
