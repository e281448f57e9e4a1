"""A user's object becomes a ``Rule``. This file imports no framework.

The adapter is chosen by the types that were handed over, looked up among the modules
that are imported already: whoever passes a tensor has imported its framework.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gradproof.errors import UsageError
from gradproof.rule import Rule

__all__ = ["adapt"]


def adapt(
    thing: Any,
    inputs: Any,
    kwargs: dict[str, Any] | None = None,
    *,
    vjp: Callable[..., Any] | None = None,
    gradient: Callable[..., Any] | None = None,
    jacobian: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    reset: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Rule:
    """The rule of ``thing`` at ``inputs``.

    Args:
        thing: An ``autograd.Function`` subclass, its ``.apply``, a function, an
            ``nn.Module``, a custom operator; or the forward of a raw pair.
        inputs: A tensor or array, or a tuple or list of positional arguments, nested
            at will. Tensors with ``requires_grad`` vary; when none has it, every real
            or complex one does.
        kwargs: Keyword arguments, treated alike.
        vjp: The hand-written backward of a raw pair, ``vjp(grad_output, *inputs)``:
            the gradient, or a tuple with one for each input. Where the forward has
            several outputs, ``grad_output`` is nested as they are.
        gradient: For NumPy and a scalar function: ``gradient(*inputs)``.
        jacobian: For NumPy: ``jacobian(*inputs)``, of shape (outputs, inputs).
        reference: A plain implementation of the same function, one more witness.
        surrogate: The function that the backward is meant to differentiate.
        reset: Called before each forward.
        name: What reports call it.

    Raises:
        UsageError: The question cannot be asked as it stands.
        UserCodeError: The user's forward raised at the given inputs.
    """
    torch = sys.modules.get("torch")
    if torch is not None and _is_torch(torch, thing, inputs, kwargs):
        if gradient is not None or jacobian is not None:
            raise UsageError(
                "gradient= and jacobian= are for NumPy arrays but got tensors; "
                "pass vjp=backward, called as backward(grad_output, *inputs)."
            )
        from gradproof.adapters import torch_adapt

        return torch_adapt.adapt(
            thing, inputs, kwargs, vjp=vjp, reference=reference,
            surrogate=surrogate, reset=reset, name=name,
        )  # fmt: skip
    raise UsageError(
        "Expected PyTorch tensors, or NumPy arrays with vjp=; "
        f"got {type(inputs).__name__}."
    )


def _is_torch(
    torch: Any, thing: Any, inputs: Any, kwargs: dict[str, Any] | None
) -> bool:
    """Whether this is for the PyTorch adapter."""
    from gradproof.adapters import trees

    leaves = [item for _, item in trees.walk((inputs, kwargs or {}))]
    if any(isinstance(item, torch.Tensor) for item in leaves):
        return True
    if isinstance(thing, torch.nn.Module):
        return True
    owner = thing if isinstance(thing, type) else getattr(thing, "__self__", None)
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)
