"""Drop-ins for ``torch.autograd.gradcheck`` and ``gradgradcheck``.

The same question with the same keywords, preconditions, errors and warnings, computed
by this package. Where step or tolerances are given, the caller's criterion decides, by
the classical central difference. At the defaults a judge may be handed in, which knows
better where the classical comparison is misled; ``run`` says how the two combine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gradproof.adapters import torch_gradcheck_demands as demands
from gradproof.adapters import torch_gradcheck_texts as texts
from gradproof.adapters.torch_gradcheck_compare import (
    aspects_backward,
    aspects_forward,
    compare,
)
from gradproof.adapters.torch_gradcheck_options import (
    Bench,
    Explain,
    Judge,
    Options,
    SecondOptions,
    judgeable,
    with_grad,
)
from gradproof.adapters.torch_gradcheck_second import (
    gradient_of,
    random_cotangents,
)
from gradproof.adapters.torch_gradcheck_tensors import (
    MKLDNN,
    as_tuple,
    is_plain,
    is_sparse,
    stored,
    wants_grad,
)
from gradproof.adapters.torch_gradcheck_texts import (
    GradcheckError,
    TorchGradcheckError,
)

__all__ = [
    "GradcheckError",
    "Options",
    "SecondOptions",
    "gradcheck",
    "gradgradcheck",
    "run",
    "run_second",
]

Function = Callable[..., Any]


def gradcheck(
    func: Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of a function agree with finite differences.

    Args:
        func: takes the inputs, returns a tensor or a tuple of tensors.
        inputs: a tensor, or a tuple or list of arguments. Tensors that require grad are
            checked.
        eps: the step, absolute.
        atol: absolute tolerance on an entry of a Jacobian.
        rtol: tolerance relative to the numerical entry.
        raise_exception: raise GradcheckError on failure, rather than return False.
        nondet_tol: how far two runs of the backward may differ.
        check_undefined_grad: undefined cotangents must count as zeros.
        check_grad_dtypes: gradients must have their inputs' dtypes.
        check_batched_grad: gradients under vmap must be those of a loop.
        check_batched_forward_grad: the same for forward mode.
        check_forward_ad: check forward mode as well.
        check_backward_ad: check the backward.
        fast_mode: compare one random projection instead of whole Jacobians.
        masked: leave out elements that sparse inputs do not store.

    Returns:
        True, or False where ``raise_exception`` is False.

    Raises:
        GradcheckError: a derivative is wrong.
        ValueError: no input requires grad, or an output is sparse or mkldnn.
        RuntimeError: an input has a dimension with stride 0.
        AssertionError: keywords contradict each other, or outputs change their form.
    """
    options = Options(
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
        check_forward_ad=check_forward_ad,
        check_backward_ad=check_backward_ad,
        fast_mode=fast_mode,
        masked=masked,
    )
    return run(func, inputs, options=options)


def gradgradcheck(
    func: Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the gradients of a gradient agree with its finite differences.

    The gradient is checked as a function of the inputs and of the cotangents.

    Args:
        func: see ``gradcheck``.
        inputs: see ``gradcheck``.
        grad_outputs: the cotangents; by default uniform in [-1, 1), requiring grad.
        eps: see ``gradcheck``, like all keywords that are not named here.
        atol: see ``gradcheck``.
        rtol: see ``gradcheck``.
        gen_non_contig_grad_outputs: make the default cotangents non-contiguous.
        raise_exception: see ``gradcheck``.
        nondet_tol: see ``gradcheck``.
        check_undefined_grad: see ``gradcheck``.
        check_grad_dtypes: see ``gradcheck``.
        check_batched_grad: see ``gradcheck``.
        check_fwd_over_rev: check forward mode over the backward.
        check_rev_over_rev: check the backward of the backward.
        fast_mode: see ``gradcheck``.
        masked: see ``gradcheck``.

    Returns:
        True, or False where ``raise_exception`` is False.

    Raises:
        GradcheckError: a second derivative is wrong.
        ValueError: see ``gradcheck``, like the other exceptions.
    """
    options = SecondOptions(
        eps=eps,
        atol=atol,
        rtol=rtol,
        gen_non_contig_grad_outputs=gen_non_contig_grad_outputs,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_fwd_over_rev=check_fwd_over_rev,
        check_rev_over_rev=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )
    return run_second(func, inputs, grad_outputs, options=options)


def run(
    func: Function,
    inputs: Any,
    *,
    options: Options,
    judge: Judge | None = None,
    explain: Explain | None = None,
) -> bool:
    """``gradcheck``, with a judge who may overrule the classical comparison.

    Where the caller left step and tolerances at their defaults, and all tensors are
    ordinary strided ones that the function takes from its arguments:

    - a Jacobian that differs from the numbers is an error unless the judge says True
      (a forward-mode Jacobian must then agree with the backward's);
    - where all else passed, a gradient is an error if the judge says False.

    Otherwise, and where the judge says None, the classical criterion decides.

    Args:
        func: see ``gradcheck``.
        inputs: see ``gradcheck``.
        options: see ``gradcheck``.
        judge: called at most once, with the function and the tuple of inputs; True when
            the gradient is known to be right, False when it is known to be wrong at
            first order, None when unknown. It must not raise for the user's code.
        explain: called at most once, after a failure that will be raised; its text is
            put after the error's own.
    """
    options.demand_consistent()
    arguments = as_tuple(inputs)
    _demand_usable(arguments)
    with _left_as_found(arguments):
        try:
            _check(func, arguments, options, judge)
        except TorchGradcheckError as error:
            if not options.raise_exception:
                return False
            if explain is not None and judgeable(arguments, ()):
                _append(error, explain())
            raise
    return True


def run_second(
    func: Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    options: SecondOptions,
    judge: Judge | None = None,
    explain: Explain | None = None,
) -> bool:
    """``gradgradcheck``, with a judge; see ``run``.

    The judge is handed the gradient as a function, with the inputs and the cotangents
    as its inputs.
    """
    options.demand_consistent()
    arguments = as_tuple(inputs)
    if grad_outputs is None:
        outputs = [out for out in as_tuple(func(*arguments)) if out.requires_grad]
        cotangents = random_cotangents(
            outputs, contiguous=not options.gen_non_contig_grad_outputs
        )
    else:
        cotangents = as_tuple(grad_outputs)
    return run(
        gradient_of(func, arguments, cotangents),
        arguments + cotangents,
        options=options.of_gradient(),
        judge=judge,
        explain=explain,
    )


def _check(
    func: Function, inputs: tuple[Any, ...], options: Options, judge: Judge | None
) -> None:
    """All that was asked, in PyTorch's order; the first failure is raised."""
    func_out = as_tuple(func(*inputs))
    outputs = [out for out in func_out if out.requires_grad]
    _demand_strided(outputs)
    admitted = (
        options.default_criterion
        and options.check_backward_ad
        and bool(outputs)
        and judgeable(inputs, func_out)
    )
    bench = Bench(with_grad(func, func_out), inputs, judge, admitted=admitted)
    if options.check_backward_ad:
        for aspect in aspects_backward(func, func_out, inputs):
            compare(aspect, options, bench)
    if options.check_forward_ad:
        aspects = []
        for aspect in aspects_forward(func, func_out, inputs):
            compare(aspect, options, bench)
            aspects.append(aspect)
        if options.check_undefined_grad:
            for aspect in aspects:
                demands.undefined_forward(aspect.func, aspect.inputs)
    if options.check_batched_forward_grad:
        demands.batched_forward(func, inputs)
    if options.check_backward_ad:
        _check_backward_demands(func, inputs, outputs, options)
        if bench.refutes():
            raise GradcheckError(bench.describe())


def _check_backward_demands(
    func: Function, inputs: tuple[Any, ...], outputs: list[Any], options: Options
) -> None:
    if options.check_batched_grad:
        for number, output in enumerate(outputs):
            demands.batched_backward(inputs, output, number)
    demands.zero_gives_zero(outputs, inputs, masked=bool(options.masked))
    if options.check_undefined_grad:
        demands.undefined_backward(func, inputs)


def _demand_usable(inputs: tuple[Any, ...]) -> None:
    """Conditions on the inputs; a warning for those of low precision."""
    for index, value in enumerate(inputs):
        if wants_grad(value):
            if value.dtype not in (torch.float64, torch.complex128):
                demands.warn(texts.low_precision(index))
            _demand_no_stride_zero(index, value)
        elif isinstance(value, list | tuple) and any(map(wants_grad, value)):
            raise IndexError(texts.nested_input(index))
    if not any(map(wants_grad, inputs)):
        raise ValueError(texts.NOTHING_TO_CHECK)


def _demand_no_stride_zero(index: int, tensor: Any) -> None:
    if tensor.layout is MKLDNN:
        return
    content = stored(tensor)
    sizes = zip(content.stride(), content.size(), strict=True)
    if any(stride <= 0 and size > 1 for stride, size in sizes):
        raise RuntimeError(texts.stride_zero(index))


def _demand_strided(outputs: list[Any]) -> None:
    tensors = [out for out in outputs if isinstance(out, torch.Tensor)]
    if any(map(is_sparse, tensors)):
        raise ValueError(texts.unsupported_output("Sparse"))
    if any(out.layout is MKLDNN for out in tensors):
        raise ValueError(texts.unsupported_output("MKLDNN"))


@contextmanager
def _left_as_found(inputs: tuple[Any, ...]) -> Iterator[None]:
    """Undo what the function itself wrote to its inputs, also when something raises."""
    kept = [(x, x.detach().clone()) for x in inputs if is_plain(x) and wants_grad(x)]
    try:
        yield
    finally:
        for tensor, before in kept:
            if not torch.equal(tensor.detach(), before):
                tensor.data.copy_(before)


def _append(error: TorchGradcheckError, text: str) -> None:
    if not text:
        return
    *head, last = error.args or ("",)
    error.args = (*head, f"{last}\n{text}" if isinstance(last, str) else last)
    if not isinstance(last, str):
        error.args = (*error.args, text)
