"""A user's object becomes a ``Rule``. This file imports no framework.

The adapter is chosen by the types that were handed over, looked up among the modules
that are imported already: whoever passes a tensor has imported its framework.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradproof.adapters import trees
from gradproof.adapters.describe import describe_inputs as describe_inputs
from gradproof.adapters.describe import from_npz as from_npz
from gradproof.adapters.describe import realise as realise
from gradproof.adapters.describe import to_npz as to_npz
from gradproof.adapters.directions import direction_of as direction_of
from gradproof.adapters.refined import Refined as Refined
from gradproof.adapters.refined import refined as refined
from gradproof.adapters.signatures import signature as signature
from gradproof.errors import UsageError
from gradproof.rule import Primal, Rule


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
            the gradient of a lone input; or a tuple with one for each argument, or one
            for each tensor or array that varies; or a dict by parameter name. Where the
            forward has several outputs, ``grad_output`` is nested as they are.
        gradient: For NumPy and a scalar function: ``gradient(*inputs)``.
        jacobian: For NumPy: ``jacobian(*inputs)``, of shape (outputs, inputs), or one
            such matrix for each input.
        reference: A plain implementation of the same function, one more witness.
        surrogate: The function that the backward is meant to differentiate.
        reset: Called before each forward.
        name: What reports call it.

    Raises:
        UsageError: The question cannot be asked as it stands.
        UserCodeError: The user's forward raised at the given inputs.
    """
    given = {"vjp": vjp, "gradient": gradient, "jacobian": jacobian}
    halves = {key: half for key, half in given.items() if half is not None}
    if len(halves) > 1:
        raise UsageError(
            f"{' and '.join(f'{key}=' for key in halves)} were both given and one "
            f"was expected; keep the one that is to be checked."
        )
    rest: dict[str, Any] = {
        "reference": reference, "surrogate": surrogate, "reset": reset, "name": name,
    }  # fmt: skip
    if _is_torch(thing, inputs, kwargs):
        if gradient is not None or jacobian is not None:
            raise UsageError(
                "gradient= and jacobian= are for NumPy arrays but tensors were given; "
                "pass vjp=backward, called as backward(grad_output, *inputs)."
            )
        from gradproof.adapters import torch_adapt

        return torch_adapt.adapt(thing, inputs, kwargs, vjp=vjp, **rest)
    if not halves:
        raise UsageError(_no_rule(thing))
    from gradproof.adapters import numpy_adapt, numpy_pair

    [(kind, half)] = halves.items()
    backward = numpy_pair.Backward(half, kind)
    return numpy_adapt.adapt(thing, inputs, kwargs, backward=backward, **rest)


def primal(
    thing: Any,
    inputs: Any,
    kwargs: dict[str, Any] | None = None,
    *,
    reset: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Primal:
    """The function alone, of either framework; no gradient of its own is needed.

    Args:
        thing: as for ``adapt``; a NumPy function too.
        inputs: as for ``adapt``.
        kwargs: as for ``adapt``.
        reset: called before each call.
        name: what errors call it.

    Raises:
        UsageError: The question cannot be asked as it stands.
        UserCodeError: The user's function raised at the given inputs.
    """
    if _is_torch(thing, inputs, kwargs):
        from gradproof.adapters import torch_adapt

        return torch_adapt.forward_of(thing, inputs, kwargs, reset=reset, name=name)
    from gradproof.adapters import numpy_adapt

    return numpy_adapt.forward_of(thing, inputs, kwargs, reset=reset, name=name)


@contextmanager
def ordinary() -> Iterator[None]:
    """Outside PyTorch's inference mode, whose tensors take part in no gradient."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(mode=False):
        yield


def backend_of(asked: str) -> str:
    """The name of the compiler's backend; "" asks for the default one.

    Raises:
        UsageError: there is no backend of that name.
    """
    from gradproof.adapters import torch_compiled

    return torch_compiled.backend_of(asked)


def suggestion(rule: Rule) -> Any:
    """A backward as code for the one custom gradient inside ``rule``.

    It has ``text``, a ``function`` with that backward, ``args`` and ``others`` to try it
    at; a sentence where there is none.
    """
    if not hasattr(rule, "program"):
        return "the forward is no PyTorch code"
    from gradproof.adapters import torch_suggest

    return torch_suggest.suggestion(rule)


def _no_rule(thing: Any) -> str:
    """Why there is nothing to check, where no tensor is in sight."""
    if not callable(thing):
        return (
            f"Expected a function, an autograd.Function or a module but got "
            f"{type(thing).__name__}, which cannot be called."
        )
    return (
        "No PyTorch tensor is among the inputs, and a NumPy function carries no gradient "
        "of its own; pass tensors, or the hand-written gradient as vjp=, gradient= or "
        "jacobian=."
    )


def _is_torch(thing: Any, inputs: Any, kwargs: dict[str, Any] | None) -> bool:
    """Whether this is for the PyTorch adapter."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    leaves = [item for _, item in trees.walk((inputs, kwargs or {}))]
    if any(isinstance(item, torch.Tensor) for item in leaves):
        return True
    if isinstance(thing, (torch.nn.Module, torch.autograd.Function)):
        return True
    owner = thing if isinstance(thing, type) else getattr(thing, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
        return True
    return type(thing).__module__.startswith(("torch._library", "torch._ops"))
