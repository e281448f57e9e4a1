"""Every sentence that the drop-ins raise or warn with, and their error class.

The sentences are an interface: programs match them with regular expressions, so each
starts as PyTorch's does in the same situation. The pages of advice that follow some of
them are read from the installed PyTorch, so that they speak of the version in use.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError as TorchGradcheckError

__all__ = ["GradcheckError", "TorchGradcheckError"]


class GradcheckError(TorchGradcheckError):
    """A gradient did not pass ``gradcheck`` or ``gradgradcheck``.

    A subclass of ``torch.autograd.gradcheck.GradcheckError``, so that programs which
    catch that one (or ``RuntimeError``) keep working.
    """


# The attribute torch.autograd.gradcheck is the function, not the module.
_TORCH: ModuleType = sys.modules["torch.autograd.gradcheck"]


def _advice(name: str, otherwise: str) -> str:
    return str(getattr(_TORCH, name, otherwise))


def nondeterminism_advice() -> str:
    """What to do about a backward that is not repeatable."""
    return _advice("FAILED_NONDET_MSG", "\n\nSee the argument `nondet_tol`.\n")


def batched_advice(*, forward: bool) -> str:
    """What to do about a derivative that cannot be batched."""
    if forward:
        name = "FAILED_BATCHED_GRAD_MSG_FWD_AD"
        head = "gradcheck failed while testing batched gradient computation"
        return _advice(name, head + " with forward-mode AD.")
    head = "gradcheck or gradgradcheck failed while testing batched gradient"
    return _advice("FAILED_BATCHED_GRAD_MSG", head + " computation.")


def fast_only_advice() -> str:
    """What to do where only the fast mode fails."""
    head = "Fast gradcheck failed but element-wise differences are small."
    return _advice("FAST_FAIL_SLOW_OK_MSG", head)


# Conditions on how the question is put; never caught by raise_exception=False.

NO_MODE = "Expected at least one of check_forward_ad or check_backward_ad to be True"
BATCHED_NEEDS_BACKWARD = (
    "Setting check_batched_grad=True requires check_backward_ad to be True"
)
BATCHED_NEEDS_FORWARD = (
    "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
)
NO_SECOND_MODE = (
    "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
)
UNDEFINED_NEEDS_REVERSE = (
    "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
)
BATCHED_NEEDS_REVERSE = (
    "Setting check_batched_grad=True requires check_rev_over_rev to be True"
)
NOTHING_TO_CHECK = (
    "gradcheck expects at least one input tensor to require gradient, "
    "but none of them have requires_grad=True."
)
MKLDNN_FORWARD = "MKLDNN inputs are not support for forward AD gradcheck."


def low_precision(index: int) -> str:
    """The warning for an input that is neither float64 nor complex128."""
    return (
        f"Input #{index} requires gradient and is not a double precision floating "
        "point or complex. This check will likely fail if all the inputs are not of "
        "double precision floating point or complex. "
    )


def stride_zero(index: int) -> str:
    """An input that was expanded."""
    return (
        f"The {index}th input has a dimension with stride 0. gradcheck only supports "
        "inputs that are non-overlapping to be able to compute the numerical gradients "
        "correctly. You should call .contiguous on the input before passing it to "
        "gradcheck."
    )


def nested_input(index: int) -> str:
    """A tensor that requires grad inside a list among the inputs."""
    return (
        f"inputs[{index}] holds a tensor that requires grad inside a container. "
        "gradcheck differentiates only tensors that are inputs themselves; pass it as "
        "an argument of its own."
    )


def unsupported_output(layout: str) -> str:
    """An output that is sparse or of mkldnn layout."""
    return (
        f"{layout} output is not supported at gradcheck yet. "
        "Please call to_dense(masked_grad=...) on the output of fn for gradcheck."
    )


def output_changed(
    what: str, below: Any, above: Any, eps: float, index: tuple[int, ...] | None
) -> str:
    """Outputs whose shape or dtype depends on the values of the inputs."""
    place = "" if index is None else f"on index {index} "
    return (
        f"Expected `func` to return outputs with the same {what} when inputs are "
        f"perturbed {place}by {eps}, but got: {what}s {below} and {above}."
    )


def output_count_changed(below: int, above: int) -> str:
    """Another number of outputs when the inputs are moved."""
    return (
        "Expected `func` to return the same number of outputs when inputs are "
        f"perturbed, but got: {below} and {above}."
    )


def gradient_size(expected: int, got: int) -> str:
    """A gradient with another number of elements than its input."""
    return f"Expected out_jacobian column to have {got} elements, but got {expected}"


# What is wrong with a gradient.

NOT_ZERO = "Numerical gradient for function expected to be zero"
GRADIENT_DTYPE = "Gradient has dtype mismatch"
GRADIENT_SIZE = "Analytical gradient has incorrect size"
FORWARD_DTYPE = "Forward AD gradient has dtype mismatch."
NOT_MULTIPLIED = "backward not multiplied by grad_output"
INCORRECT_TYPE = "grad is incorrect type"
INCORRECT_DEVICE = "grad is incorrect device"
INCORRECT_SIZE = "grad is incorrect size"
_SEE_NOTES = (
    'Please look at "Notes about undefined output gradients" in '
    '"tools/autograd/derivatives.yaml"'
)
UNDEFINED_RAISES = (
    f"Expected backward function to handle undefined output grads. {_SEE_NOTES}"
)
UNDEFINED_NOT_ZERO = (
    "Expected all input grads to be undefined or zero when all output grads are "
    f"undefined or zero. {_SEE_NOTES}"
)
UNDEFINED_WARNING = (
    "Backwards compatibility: New undefined gradient support checking feature is "
    "enabled by default, but it may break existing callers of this function. If this "
    'is true for you, you can call this function with "check_undefined_grad=False" to '
    "disable the feature"
)


def not_reentrant(tolerance: float) -> str:
    """Two runs of one backward differ."""
    return (
        "Backward is not reentrant, i.e., running backward with same input and "
        "grad_output multiple times gives different values, although analytical "
        "gradient matches numerical gradient.The tolerance for nondeterminism was "
        f"{tolerance}." + nondeterminism_advice()
    )


def incorrect_layout(got: torch.layout, expected: torch.layout) -> str:
    """A gradient of another layout than its input."""
    return f"grad is incorrect layout ({got} is not {expected})"


def incorrect_sparsity(
    layout: torch.layout, dimension: str, got: int, expected: int
) -> str:
    """A sparse gradient with other sparse or dense dimensions than its input."""
    kind = str(layout).replace("torch.", "").replace("_coo", "")
    return (
        f"grad is {kind} tensor, but has incorrect {dimension} {got}, "
        f"expected {expected}"
    )


def mismatch(
    numerical: Any, analytical: Any, output: int, input_: int, *, prefix: str, mode: str
) -> str:
    """The two Jacobians of one pair differ.

    Args:
        numerical: what finite differences gave.
        analytical: what the engine gave.
        output: index among the differentiable outputs.
        input_: index among the inputs that require grad.
        prefix: which part of a complex function is meant, or "".
        mode: "computed with forward mode " or "".
    """
    return (
        f"{prefix}Jacobian {mode}mismatch for output {output:d} with respect to input "
        f"{input_:d},\nnumerical:{numerical}\nanalytical:{analytical}\n"
    )


# After a mismatch that only the judge saw.
REFUTED = "These agree within the tolerances, and yet the gradient is wrong.\n"


def part_considered(part: str, element: str) -> str:
    """Which part of a complex function the numbers belong to."""
    return f"While considering the {part} part of complex {element} only, "


def slow_again(numerical: Any, analytical: Any, gap: Any) -> str:
    """The whole Jacobians, after a failure in fast mode."""
    return (
        "\nThe above quantities relating the numerical and analytical jacobians are "
        "computed \nin fast mode. See: "
        "https://github.com/pytorch/pytorch/issues/53876 for more background \n"
        "about fast mode. Below, we recompute numerical and analytical jacobians in "
        f"slow mode:\n\nNumerical:\n {numerical}\nAnalytical:\n{analytical}\n\n"
        f"The max per-element difference (slow mode) is: {gap}.\n"
    )


def batching_failed(error: Exception, *, forward: bool) -> str:
    """The derivative raised under vmap."""
    advice = batched_advice(forward=forward)
    return f"While computing batched gradients, got: {error}\n\n{advice}"


def batched_differs(
    output: int, input_: int, got: Any, expected: Any, *, forward: bool
) -> str:
    """The batched derivative is not that of the loop."""
    return (
        f"For output {output} and input {input_}:\n\n"
        f"{batched_advice(forward=forward)}\n\nGot:\n{got}\n\nExpected:\n{expected}"
    )


def undefined_tangent(
    output: int, tensor: Any, got: Any, expected: Any
) -> tuple[Any, ...]:
    """Arguments of the error for a zero tangent that counts unlike none at all."""
    return (
        "Mismatch in tangent values for output with index: ",
        output,
        " when input: ",
        tensor,
        " has an undefined tangent value. ",
        " Got: ",
        got,
        " but expected: ",
        expected,
    )
