"""What a caller of the drop-ins may ask for, and who decides on it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gradproof.adapters import torch_gradcheck_texts as texts
from gradproof.adapters.torch_gradcheck_tensors import (
    as_tuple,
    is_plain,
    wants_grad,
)

Judge = Callable[[Callable[..., Any], tuple[Any, ...]], bool | None]
Explain = Callable[[], str]

EPS, ATOL, RTOL = 1e-6, 1e-5, 1e-3


@dataclass(frozen=True, kw_only=True)
class Options:
    """The keywords of ``torch.autograd.gradcheck``, with its defaults."""

    eps: float = EPS
    atol: float = ATOL
    rtol: float = RTOL
    raise_exception: bool = True
    nondet_tol: float = 0.0
    check_undefined_grad: bool = True
    check_grad_dtypes: bool = False
    check_batched_grad: bool = False
    check_batched_forward_grad: bool = False
    check_forward_ad: bool = False
    check_backward_ad: bool = True
    fast_mode: bool = False
    masked: bool | None = None

    @property
    def default_criterion(self) -> bool:
        """Whether step and tolerances, also that between two runs, were left to us."""
        given = (self.eps, self.atol, self.rtol, self.nondet_tol)
        return given == (EPS, ATOL, RTOL, 0.0)

    def demand_consistent(self) -> None:
        """Raise AssertionError for keywords that contradict each other."""
        for broken, text in (
            (not (self.check_forward_ad or self.check_backward_ad), texts.NO_MODE),
            (
                self.check_batched_grad and not self.check_backward_ad,
                texts.BATCHED_NEEDS_BACKWARD,
            ),
            (
                self.check_batched_forward_grad and not self.check_forward_ad,
                texts.BATCHED_NEEDS_FORWARD,
            ),
        ):
            if broken:
                raise AssertionError(text)


@dataclass(frozen=True, kw_only=True)
class SecondOptions:
    """The keywords of ``torch.autograd.gradgradcheck``, with its defaults."""

    eps: float = EPS
    atol: float = ATOL
    rtol: float = RTOL
    gen_non_contig_grad_outputs: bool = False
    raise_exception: bool = True
    nondet_tol: float = 0.0
    check_undefined_grad: bool = True
    check_grad_dtypes: bool = False
    check_batched_grad: bool = False
    check_fwd_over_rev: bool = False
    check_rev_over_rev: bool = True
    fast_mode: bool = False
    masked: bool = False

    def demand_consistent(self) -> None:
        """Raise AssertionError for keywords that contradict each other."""
        reverse = self.check_rev_over_rev
        for broken, text in (
            (not (self.check_fwd_over_rev or reverse), texts.NO_SECOND_MODE),
            (self.check_undefined_grad and not reverse, texts.UNDEFINED_NEEDS_REVERSE),
            (self.check_batched_grad and not reverse, texts.BATCHED_NEEDS_REVERSE),
        ):
            if broken:
                raise AssertionError(text)

    def of_gradient(self) -> Options:
        """The options with which the gradient is checked as a function."""
        return Options(
            eps=self.eps,
            atol=self.atol,
            rtol=self.rtol,
            raise_exception=self.raise_exception,
            nondet_tol=self.nondet_tol,
            check_undefined_grad=self.check_undefined_grad,
            check_grad_dtypes=self.check_grad_dtypes,
            check_batched_grad=self.check_batched_grad,
            check_forward_ad=self.check_fwd_over_rev,
            check_backward_ad=self.check_rev_over_rev,
            fast_mode=self.fast_mode,
            masked=self.masked,
        )


class Bench:
    """Who decides whether a gradient is right: the classical criterion or the judge.

    The judge is asked once, when first needed, and only where it can know: at the
    default step and tolerances, on ordinary strided tensors, for a function that uses
    the tensors it is passed.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        inputs: tuple[Any, ...],
        judge: Judge | None,
        *,
        admitted: bool = True,
    ) -> None:
        """Take the question; ``admitted=False`` leaves the judge out."""
        self._func = func
        self._inputs = inputs
        self._judge = judge if admitted else None
        self._answer: tuple[bool | None] | None = None
        self._worst = 0.0
        self._describe: Callable[[], str] | None = None

    @property
    def open(self) -> bool:
        """Whether there is a judge to ask."""
        return self._judge is not None

    def proves(self) -> bool:
        """Whether the judge knows the gradient to be right."""
        return self._ask() is True

    def refutes(self) -> bool:
        """Whether the judge knows the gradient to be wrong."""
        return self._ask() is False

    def note(
        self, analytical: torch.Tensor, numerical: torch.Tensor, text: Callable[[], str]
    ) -> None:
        """Remember how to describe the pair whose Jacobians differ most."""
        if not self.open:
            return
        gap = _relative_gap(analytical, numerical)
        if self._describe is None or gap > self._worst:
            self._worst, self._describe = gap, text

    def describe(self) -> str:
        """The sentence for the pair that was noted, refuted though it agrees."""
        pair = "" if self._describe is None else self._describe()
        return pair + texts.REFUTED

    def _ask(self) -> bool | None:
        if self._judge is None:
            return None
        if self._answer is None:
            usable = uses_arguments(self._func, self._inputs)
            self._answer = (self._judge(self._func, self._inputs) if usable else None,)
        return self._answer[0]


def with_grad(func: Callable[..., Any], outputs: tuple[Any, ...]) -> Callable[..., Any]:
    """``func`` with those of its outputs that require grad; the others are not asked."""
    kept = [number for number, out in enumerate(outputs) if out.requires_grad]
    if len(kept) == len(outputs):
        return func

    @functools.wraps(func)
    def some(*inputs: Any) -> tuple[Any, ...]:
        given = as_tuple(func(*inputs))
        return tuple(given[number] for number in kept)

    return some


def judgeable(inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> bool:
    """Whether all tensors are ordinary strided ones."""
    return all(
        is_plain(value) or not hasattr(value, "requires_grad")
        for value in (*inputs, *outputs)
    )


def uses_arguments(func: Callable[..., Any], inputs: tuple[Any, ...]) -> bool:
    """Whether the function depends on what it is passed, rather than on a closure.

    Runs it on copies: a gradient that reaches the originals all the same tells that the
    function holds on to them. False as well where that run raises.
    """
    originals = [value for value in inputs if wants_grad(value)]
    copies = tuple(
        value.detach().clone().requires_grad_() if wants_grad(value) else value
        for value in inputs
    )
    try:
        outputs = [out for out in as_tuple(func(*copies)) if out.requires_grad]
        gradients = torch.autograd.grad(
            outputs,
            originals,
            [torch.zeros_like(out) for out in outputs],
            allow_unused=True,
        )
    except Exception:  # the user's own code; it is judged elsewhere
        return False
    return all(gradient is None for gradient in gradients)


def _relative_gap(analytical: torch.Tensor, numerical: torch.Tensor) -> float:
    if not numerical.numel():
        return 0.0
    gap = float((analytical - numerical).abs().max())
    size = max(float(numerical.abs().max()), float(analytical.abs().max()))
    return gap / size if size > 0 else 0.0
