"""The drop-ins beside what they replace: same signatures, outcomes, texts."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dropin_cases import (
    PRECONDITIONS,
    RIGHT,
    UNDEFINED_REFUSED,
    WRONG,
    Case,
    UndefinedIsOne,
    WrongSecond,
    leaf,
)

from gradproof.adapters import torch_gradcheck as ours

COMPARES_WITH_TORCH = True

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),
]

BOTH = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def outcome(check: Callable[..., bool], *args: Any, **options: Any) -> Any:
    """True or False, or the error's class and arguments as texts; and the warnings."""
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result: Any = check(*args, **options)
        except Exception as error:
            kind = type(error)
            # Ours is a subclass of the same name.
            # What was batched was drawn at random.
            said = tuple(str(arg).partition("\nGot:\n")[0] for arg in error.args)
            result = (kind.__name__, said)
    warned = {(w.category, str(w.message)) for w in seen}
    # PyTorch says these once a process, to whoever comes first.
    once = {pair for pair in warned if pair[1].startswith("Sparse")}
    return result, {pair for pair in warned - once if pair[0] is not DeprecationWarning}


ALL = (
    *RIGHT,
    *WRONG,
    *PRECONDITIONS,
    UNDEFINED_REFUSED,
    Case("undefined is ones", lambda: (UndefinedIsOne.apply, (leaf(2),))),
    Case("low precision", lambda: (torch.sin, (leaf(2, dtype=torch.float32),))),
    Case("half", lambda: (torch.sin, (leaf(2, dtype=torch.float16),))),
    Case("infinite", lambda: (torch.log, (leaf(2) * 0,))),
    Case("a kink", lambda: (torch.relu, (leaf(2) * 0,))),
    Case("dropout", lambda: (lambda x: torch.dropout(x, 0.5, True), (leaf(9),))),
    Case("keywords", lambda: (torch.sin, {"input": leaf(2)})),
)


@BOTH
@pytest.mark.parametrize("raising", [True, False], ids=["raise", "return"])
@pytest.mark.parametrize("case", ALL, ids=[f"{k} {c.name}" for k, c in enumerate(ALL)])
def test_one_outcome(case: Case, raising: bool, fast: bool) -> None:
    options = {**case.options, "fast_mode": fast, "raise_exception": raising}
    theirs = outcome(torch.autograd.gradcheck, *case.make(), **options)
    assert outcome(ours.gradcheck, *case.make(), **options) == theirs


@BOTH
@pytest.mark.parametrize(
    "func",
    [torch.sin, WrongSecond.apply, lambda x: (x.sin(), x.prod()), lambda x: x + 1],
    ids=["sin", "wrong", "two outputs", "linear"],
)
def test_one_outcome_at_second_order(func: Callable[..., Any], fast: bool) -> None:
    given = tuple(
        torch.linspace(-1, 1, out.numel(), dtype=out.dtype)
        .reshape(out.shape)
        .requires_grad_()
        for out in ours.as_tuple(func(leaf(3)))
    )
    for options in ({}, {"check_fwd_over_rev": True}, {"check_batched_grad": True}):
        theirs = outcome(
            torch.autograd.gradgradcheck,
            func,
            (leaf(3),),
            given,
            fast_mode=fast,
            **options,
        )
        got = outcome(
            ours.gradgradcheck, func, (leaf(3),), given, fast_mode=fast, **options
        )
        assert got == theirs


@pytest.mark.parametrize("name", ["gradcheck", "gradgradcheck"])
def test_one_signature(name: str) -> None:
    theirs = inspect.signature(getattr(torch.autograd, name)).parameters
    mine = inspect.signature(getattr(ours, name)).parameters
    assert [(p.name, p.kind, p.default) for p in mine.values()] == [
        (p.name, p.kind, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize(
    ("check", "options"),
    [("gradcheck", ours.Options), ("gradgradcheck", ours.SecondOptions)],
)
def test_options_have_the_same_defaults(check: str, options: type) -> None:
    parameters = inspect.signature(getattr(torch.autograd, check)).parameters
    keywords = {
        p.name: p.default
        for p in parameters.values()
        if p.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert vars(options()) == keywords


OPERATORS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "addmm": (torch.addmm, ((2, 3), (2, 4), (4, 3))),
    "cumprod": (lambda x: x.cumprod(0), ((3, 2),)),
    "solve": (torch.linalg.solve, ((3, 3), (3,))),
    "pick": (lambda x: x[torch.tensor([0, 2, 0])], ((3, 2),)),
    "stack": (lambda x, y: torch.stack([x, y.exp()]), ((2,), (2,))),
    "split": (lambda x: x.split(1), ((3,),)),
}


@BOTH
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    ("dtype", "right"),
    [(torch.float64, True), (torch.complex128, True), (torch.float32, False)],
    ids=["float64", "complex128", "float32"],
)
def test_one_outcome_for_operators(
    name: str, dtype: torch.dtype, right: bool, fast: bool
) -> None:
    func, shapes = OPERATORS[name]
    inputs = tuple(leaf(*shape, dtype=dtype) for shape in shapes)
    options = {"fast_mode": fast, "check_forward_ad": True, "check_batched_grad": True}
    theirs = outcome(torch.autograd.gradcheck, func, inputs, **options)
    assert outcome(ours.gradcheck, func, inputs, **options) == theirs
    assert (theirs[0] is True) is right
