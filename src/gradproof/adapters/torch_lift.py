"""The same program in another precision, and with its own casts lifted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gradproof.adapters.torch_program import Parameter, Program
from gradproof.adapters.torch_tensors import REAL, can_vary

_WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}
_TYPES = {
    "torch.FloatTensor": torch.float64,
    "torch.HalfTensor": torch.float64,
    "torch.BFloat16Tensor": torch.float64,
}
_CASTS = {
    Tensor.float: torch.float64,
    Tensor.half: torch.float64,
    Tensor.bfloat16: torch.float64,
}
_DRAWS = {"rand", "randn", "normal"}
_LIKE = (Tensor.to, Tensor.type_as)


class Lift(TorchFunctionMode):
    """Every cast to a narrower precision becomes one to float64 (or complex128).

    ``rewritten`` counts them. What was computed in low precision before (a constant, a
    captured tensor) stays as it is.
    """

    def __init__(self) -> None:
        """Begin with nothing rewritten."""
        super().__init__()
        self.rewritten = 0
        self.native = torch.get_default_dtype()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call ``func`` with every narrow dtype among its arguments widened."""
        kwargs = kwargs or {}
        wide = _CASTS.get(func)
        if wide is not None and args:
            self.rewritten += args[0].dtype is torch.float64 or args[0].dtype in _WIDE
            return args[0].to(wide)
        if func in _LIKE and len(args) > 1 and isinstance(args[1], Tensor):
            return self._like(func, args, kwargs)
        if getattr(func, "__name__", "") in _DRAWS:
            return self._drawn(func, args, kwargs)
        args = tuple(self._widened(a) for a in args)
        kwargs = {key: self._widened(value) for key, value in kwargs.items()}
        return func(*args, **kwargs)

    def _widened(self, a: Any) -> Any:
        if isinstance(a, torch.dtype) and a in _WIDE:
            self.rewritten += 1
            return _WIDE[a]
        if isinstance(a, str) and a in _TYPES:
            self.rewritten += 1
            return _TYPES[a]
        return a

    def _drawn(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Random numbers as they are drawn in the precision asked for, then widened."""
        kwargs.setdefault("dtype", self.native)
        drawn = func(*args, **kwargs)
        wide = _WIDE.get(drawn.dtype)
        if wide is None:
            return drawn
        self.rewritten += 1
        return drawn.to(wide)

    def _like(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A cast to the dtype of another tensor, widened where that one is narrow."""
        t, other, *rest = args
        if other.dtype not in _WIDE:
            return func(*args, **kwargs)
        self.rewritten += 1
        return t.to(other.device, _WIDE[other.dtype], *rest)


def converted(program: Program, precision: str) -> Program | None:
    """``program`` at inputs, fixed tensors and parameters of another precision.

    None where a module cannot be copied. The outputs of the result are those that are
    expected, in the new precision, whether or not it gives them.
    """
    real = REAL[precision]
    narrow = real.to_complex()

    def cast(t: Tensor) -> Tensor:
        return t.to(narrow if t.is_complex() else real) if can_vary(t) else t

    call, parameters, state = program.call, program.parameters, program.state
    if isinstance(call, torch.nn.Module):
        try:
            module = copy.deepcopy(call)
        except Exception:  # whatever a user's __deepcopy__ may raise
            return None
        _convert(module, cast)
        parameters = _rebound(call, module, parameters)
        call, state = module, state.also((module,))

    return replace(
        program,
        call=call,
        parameters=parameters,
        state=state,
        specs=tuple(s.in_precision(precision) for s in program.specs),
        slots=tuple(cast(s) if isinstance(s, Tensor) else s for s in program.slots),
        outs=tuple(
            replace(o, dtype=narrow if o.dtype.is_complex else real)
            for o in program.outs
        ),
    )


def _convert(module: torch.nn.Module, cast: Callable[[Tensor], Tensor]) -> None:
    """Parameters, buffers and tensor attributes of ``module`` in another precision."""
    for part in module.modules():
        for parameter in part._parameters.values():
            if parameter is not None:
                parameter.data = cast(parameter.data)
        for holder in (part._buffers, part.__dict__):
            for key, value in list(holder.items()):
                if isinstance(value, Tensor):
                    holder[key] = cast(value)


def _rebound(
    old: torch.nn.Module, new: torch.nn.Module, parameters: tuple[Parameter, ...]
) -> tuple[Parameter, ...]:
    """``parameters``, held by the copy of the module that held them."""
    twins = {
        id(a._parameters): b._parameters
        for a, b in zip(old.modules(), new.modules(), strict=True)
    }
    return tuple(
        replace(p, holders=tuple((twins[id(holder)], key) for holder, key in p.holders))
        for p in parameters
    )


def lifted(program: Program) -> tuple[Program, Lift] | None:
    """``program`` in float64 with its own casts lifted, and the mode that lifts them."""
    wide = converted(program, "float64")
    if wide is None:
        return None
    mode = Lift()
    call = wide.call

    def in_float64(*args: Any, **kwargs: Any) -> Any:
        torch.set_default_dtype(torch.float64)  # put back with the rest of the state
        with mode:
            return call(*args, **kwargs)

    return replace(wide, call=in_float64), mode
