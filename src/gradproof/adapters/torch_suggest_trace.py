"""The body of a hand-written forward, recorded as its author wrote it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

from gradproof.adapters.torch_body import BodyCtx, bodies
from gradproof.adapters.torch_callee import is_new_style
from gradproof.adapters.torch_suggest_expr import CannotSay, E, Spelling, like
from gradproof.adapters.torch_suggest_numbers import expression, known, plain
from gradproof.adapters.torch_suggest_vjp import Chain

_OURS = str(Path(__file__).resolve().parent.parent)
_TORCH = str(Path(torch.__file__).resolve().parent)
# More operations than this, written out, are no help to a reader.
MOST_CALLS = 60
_LEAVE = {"item", "numpy", "tolist", "__array__", "__float__", "__int__", "data_ptr",
          "__index__", "__complex__", "__dlpack__", "untyped_storage", "storage"}  # fmt: skip
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "matmul": "@",
    "gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!=",
    "bitwise_and": "&", "bitwise_or": "|",
}  # fmt: skip
_DUNDER = {
    "truediv": "div", "and": "bitwise_and", "or": "bitwise_or", "invert": "bitwise_not",
    "rdiv": "rdiv", "floordiv": "floor_divide",
}  # fmt: skip
_ALIASES = {"multiply": "mul", "subtract": "sub", "divide": "div", "true_divide": "div",
            "negative": "neg", "absolute": "abs", "greater": "gt"}  # fmt: skip
_FACTS = {
    "ndim", "is_cuda", "requires_grad", "layout", "is_leaf", "grad_fn", "is_sparse",
    "names", "grad", "is_meta", "is_mps", "is_quantized", "_base", "itemsize", "nbytes",
}  # fmt: skip
_PLAIN = {"dim", "stride", "is_floating_point", "is_complex", "is_contiguous",
          "element_size", "storage_offset", "ndimension", "get_device", "is_pinned",
          "requires_grad_", "retain_grad", "register_hook", "is_inference"}  # fmt: skip
DRAWN = {
    "rand", "randn", "rand_like", "randn_like", "bernoulli", "dropout", "normal",
    "multinomial", "randint", "randperm", "uniform", "poisson", "randint_like",
    "alpha_dropout", "feature_dropout", "empty", "empty_like", "new_empty",
}  # fmt: skip


@dataclass(eq=False)
class Trace:
    """What one run of a forward was made of."""

    builder: Chain
    names: tuple[str, ...] = ()
    args: dict[str, E] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    outs: list[E | None] = field(default_factory=list)
    saved: list[E | None] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    local: dict[E, str] = field(default_factory=dict)
    lines: dict[E, int] = field(default_factory=dict)
    order: list[E] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)


class Recorder(TorchFunctionMode):
    """Sees every call of PyTorch and writes down what it computes.

    ``told`` says which of the numbers met are really expressions, by their order.
    """

    def __init__(
        self, trace: Trace, told: dict[int, Any], home: dict[str, Any]
    ) -> None:
        """``home`` is where the names of the backward are looked up."""
        super().__init__()
        self.trace = trace
        self.b = trace.builder
        self.told = told
        self.home = home
        self.of: dict[int, tuple[Tensor, E]] = {}
        self.stores: dict[int, set[int]] = {}
        self.read: list[E] = []

    def know(self, t: Tensor, e: E) -> None:
        """``t`` is what ``e`` computes."""
        self.of[id(t)] = (t, e)
        if t.layout is torch.strided:
            held = self.stores.setdefault(t.untyped_storage().data_ptr(), set())
            held.add(id(t))

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call ``func`` on ordinary numbers and write it down."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", type(func).__name__)
        if name == "__get__":
            word = getattr(getattr(func, "__self__", None), "__name__", "")
            return self._attribute(word, func, args)
        if name in _LEAVE:
            raise CannotSay(f"the forward leaves PyTorch at line {_line()}")
        if name == "__bool__" and self._of_input(args[0]):
            raise CannotSay(f"the forward decides by values at line {_line()}")
        result = func(*_each(plain, args), **{k: plain(v) for k, v in kwargs.items()})
        if name in ("size", "numel", "__len__", "nelement"):
            return self._counted(name, args, kwargs, result)
        if name in _PLAIN or name in ("__bool__", "__hash__", "__repr__", "__format__"):
            return result
        if name == "__set__":
            raise CannotSay(f"the forward replaces a tensor's memory at line {_line()}")
        if name == "__setitem__":
            return self._set(args)
        if "out" in kwargs:
            raise CannotSay(f"the forward writes by out= at line {_line()}")
        self._record(func, name, args, kwargs, result)
        return result

    # Reading.

    def _of_input(self, t: Any) -> bool:
        found = self.of.get(id(t))
        return found is not None and found[1].head != "name"

    def _attribute(self, word: str, func: Any, args: tuple[Any, ...]) -> Any:
        result = func(*args)
        t = args[0]
        if word == "shape":
            return self._shape(t)
        if word == "dtype":
            self.read.append(self._e(t))
            return result
        if word == "data":
            self.know(result, self._e(t))
            return result
        if word in _FACTS or not isinstance(result, Tensor):
            return result
        meta = like(result)
        self._keep(
            result, self.b.op(word, Spelling("attr", word), (self._e(t),), meta=meta)
        )
        return result

    def _shape(self, t: Tensor) -> Any:
        e = self._e(t)
        sizes = [known(self.b, n, self.b.extent(e, i)) for i, n in enumerate(e.shape)]
        return torch.Size(sizes)

    def _counted(self, name: str, args: Any, kwargs: Any, result: Any) -> Any:
        e = self._e(args[0])
        if name in ("numel", "nelement"):
            made = self.b.method("numel", e, meta=int(result))
            return known(self.b, result, made)
        if name == "__len__":
            return known(self.b, result, self.b.extent(e, 0))
        sizes = self._shape(args[0])
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        return sizes if dim is None else sizes[dim]

    def _e(self, t: Tensor) -> E:
        found = self.of.get(id(t))
        if found is not None:
            return found[1]
        name = _global_name(t)
        if name is None or self.home.get(name) is not t:
            raise CannotSay(
                f"the forward uses a tensor that is no argument at line {_line()}"
            )
        e = self.b.name(name, like(t))
        self.know(t, e)
        return e

    def _arg(self, a: Any) -> Any:
        if isinstance(a, Tensor):
            return self._e(a)
        if isinstance(a, torch.Size) or (
            isinstance(a, tuple) and a and all(isinstance(n, int) for n in a)
        ):
            parts = tuple(self._arg(n) for n in a)
            first = parts[0] if parts else None
            if isinstance(first, E) and first.head == "size":
                of = first.args[0]
                if parts == tuple(self.b.extent(of, i) for i in range(len(of.shape))):
                    return self.b.shape(of)
            return parts
        if isinstance(a, (tuple, list)):
            return type(a)(self._arg(item) for item in a)
        if isinstance(a, slice):
            return slice(self._arg(a.start), self._arg(a.stop), self._arg(a.step))
        if isinstance(a, torch.dtype):
            return self._dtype(a)
        if isinstance(a, torch.device):
            return next((self.b.op("device", Spelling("attr", "device"), (e,), meta=a)
                         for e in self.trace.args.values() if e.is_tensor), a)  # fmt: skip
        if isinstance(a, (int, float)) and not isinstance(a, bool):
            return self._number(a)
        return a

    def _number(self, a: Any) -> Any:
        e = expression(a)
        if isinstance(e, E):
            return e
        place = len(self.trace.numbers)
        self.trace.numbers.append(float(a))
        if place in self.told:
            return self.told[place]
        if isinstance(a, float):
            name = _global_name(a)
            if name is not None and self.home.get(name) is a:
                return self.b.name(name, a)
        return a

    def _dtype(self, a: torch.dtype) -> Any:
        for e in reversed(self.read):
            if e.meta.dtype == a:
                return self.b.op("dtype", Spelling("attr", "dtype"), (e,), meta=a)
        return a

    # Writing.

    def _set(self, args: tuple[Any, ...]) -> None:
        t, key, value = args
        if key is not Ellipsis and key != slice(None):
            raise CannotSay(
                f"the forward writes into part of a tensor at line {_line()}"
            )
        self._overwrite(t, self._copied(t, self._arg(value)))

    def _copied(self, t: Tensor, value: Any) -> E:
        e = self._e(t)
        if not isinstance(value, E):
            return self.b.function("full_like", e, value)
        if value.shape != e.shape:
            return self.b.method("expand", value, self.b.shape(e), meta=e.meta)
        return self.b.to(value, e)

    def _overwrite(self, t: Tensor, e: E) -> None:
        others = self.stores.get(t.untyped_storage().data_ptr(), set()) - {id(t)}
        if others:
            raise CannotSay(f"the forward writes into a view at line {_line()}")
        self._keep(t, e)

    def _keep(self, t: Tensor, e: E) -> None:
        self.know(t, e)
        self._note(e)

    def _note(self, e: E) -> None:
        if e not in self.trace.lines:
            self.trace.lines[e] = _line()
            self.trace.order.append(e)
        if len(self.trace.order) > MOST_CALLS:
            raise CannotSay(
                f"the forward runs more than {MOST_CALLS} operations; "
                "written out, its backward would be no help"
            )

    def _record(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
        result: Any,
    ) -> None:  # fmt: skip
        if kwargs.get("inplace"):
            raise CannotSay(f"the forward writes into a tensor at line {_line()}")
        inplace = name.endswith("_") and not name.endswith("__")
        if not isinstance(result, (Tensor, tuple, list)) or (
            not inplace and any(result is a for a in args)
        ):
            return
        kwargs = _said(func, kwargs)
        given = tuple(self._arg(a) for a in args)
        named = {k: self._arg(v) for k, v in kwargs.items()}
        if name == "copy_" and isinstance(result, Tensor):
            self._overwrite(result, self._copied(args[0], given[1]))
            return
        op, spelling, given = _spelled(func, name, given, named)
        if isinstance(result, Tensor):
            e = self.b.op(op, spelling, given, named, meta=like(result))
            if op in DRAWN:  # another call draws other numbers
                e = self.b.name(f"<{op} {len(self.trace.order)}>", like(result))
            if inplace:
                self._overwrite(result, e)
            else:
                self._keep(result, e)
            return
        meta = tuple(like(t) for t in result)
        parent = self.b.op(op, spelling, given, named, meta=meta)
        self._note(parent)
        for i, t in enumerate(result):
            self._keep(t, self.b.index(parent, i, meta=like(t)))


def _said(func: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords without those that say what holds anyway.

    A function of PyTorch that is written in Python hands them all on.
    """
    try:
        known = inspect.signature(func).parameters
    except (TypeError, ValueError):
        return kwargs
    return {
        k: v
        for k, v in kwargs.items()
        if not k.startswith("_")
        and (isinstance(v, Tensor) or k not in known or known[k].default != v)
    }


def _each(f: Callable[[Any], Any], things: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(f(a) for a in things)


def _spelled(
    func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, Spelling, tuple[Any, ...]]:
    """(what it is, how it is written, its arguments in that order)."""
    op = name
    if name.endswith("__") and name.startswith("__"):
        word = name.strip("_")
        if word == "getitem":
            return "getitem", Spelling("index", ""), args
        if word.startswith("r") and word[1:] in ("sub", "div", "truediv", "pow", "add",
                                                 "mul", "matmul"):  # fmt: skip
            word, args = word[1:], args[::-1]
        op = _DUNDER.get(word, word)
        op = {"truediv": "div", "rdiv": "div"}.get(op, op)
    elif name.endswith("_"):
        op = name.rstrip("_")
    op = _ALIASES.get(op, op)
    if op == "iadd":
        op = "add"
    if op in ("max", "min"):
        two = len(args) > 1 and isinstance(args[1], E) and args[1].is_tensor
        if two:
            return f"{op}_of_two", Spelling("function", f"torch.{op}"), args
        if len(args) == 1 and not kwargs:
            return "top_of_all", Spelling("method", op), args
    if op in _INFIX and not kwargs and len(args) == 2:
        return op, Spelling("infix", _INFIX[op]), args
    if op == "neg":
        return op, Spelling("prefix", "-"), args
    if op == "bitwise_not":
        return op, Spelling("prefix", "~"), args
    path = str(resolve_name(func) or f"torch.{op}")
    if path.startswith("torch.Tensor.") or "TensorBase" in path:
        return op, Spelling("method", op), args
    path = path.replace("torch._C._nn.", "torch.nn.functional.")
    path = path.replace("torch.functional.", "torch.")
    path = path.replace("torch._C._linalg.linalg_", "torch.linalg.")
    op = op.removeprefix("linalg_")
    if name.endswith("_"):
        path = path.rstrip("_")
    return op, Spelling("function", path), args


def _frames() -> Iterator[Any]:
    """The user's frames, the innermost first."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OURS, _TORCH)):
            yield frame
        frame = frame.f_back


def _line() -> int:
    frame = next(_frames(), None)
    return frame.f_lineno if frame is not None else 0


def _global_name(thing: Any) -> str | None:
    """What the function that runs calls a thing of its module."""
    frame = next(_frames(), None)
    if frame is None:
        return None
    known = frame.f_globals
    return next((n for n in frame.f_code.co_names if known.get(n) is thing), None)


@contextmanager
def _naming(recorder: Recorder) -> Iterator[None]:
    """What the user's functions call the things that they have computed."""
    trace = recorder.trace
    before = sys.getprofile()
    leaves = set(trace.args.values())

    def look(frame: Any, event: str, arg: Any) -> None:
        file = frame.f_code.co_filename
        if event != "return" or file.startswith((_OURS, _TORCH, "<")):
            return
        for name, value in frame.f_locals.items():
            e = expression(value)
            if isinstance(value, Tensor):
                e = recorder.of[id(value)][1] if id(value) in recorder.of else None
            if isinstance(e, E) and e not in leaves and not name.startswith("_"):
                trace.local[e] = name

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def traced(
    cls: Any, args: tuple[Any, ...], builder: Chain, told: dict[int, Any] | None = None
) -> Trace:
    """The forward of a Function class at ``args``, run once and recorded.

    Raises:
        CannotSay: it does something that cannot be written as a backward here.
    """
    trace = Trace(builder)
    home = getattr(inspect.unwrap(cls.forward), "__globals__", {})
    recorder = Recorder(trace, told or {}, home)
    names = _parameters(cls, len(args))
    trace.names = names
    given = [_leaf(recorder, n, a) for n, a in zip(names, args, strict=True)]
    needs = tuple(isinstance(a, Tensor) and a.is_floating_point() for a in args)
    ctx: Any = BodyCtx(needs)
    with torch.no_grad(), bodies(), _naming(recorder), recorder:
        if is_new_style(cls):
            out = cls.forward(*given)
            cls.setup_context(ctx, tuple(given), out)
        else:
            out = cls.forward(ctx, *given)
    found = out if isinstance(out, (tuple, list)) else (out,)
    trace.outs = [
        recorder.of[id(t)][1] if id(t) in recorder.of else None for t in found
    ]
    if not any(trace.outs):
        raise CannotSay("the forward returns nothing that PyTorch computed")
    trace.saved = [
        recorder.of[id(t)][1] if id(t) in recorder.of else None for t in ctx.to_save
    ]
    skip = {"needs_input_grad", "to_save", "materialize_grads"}
    for key, value in vars(ctx).items():
        if key not in skip:
            trace.attributes[key] = _attribute_of(recorder, value)
    return trace


def _attribute_of(recorder: Recorder, value: Any) -> Any:
    if isinstance(value, Tensor):
        return recorder.of[id(value)][1] if id(value) in recorder.of else None
    if isinstance(value, (torch.Size, tuple)):
        return tuple(expression(n) for n in value)
    return expression(value)


def _leaf(recorder: Recorder, name: str, a: Any) -> Any:
    trace = recorder.trace
    if isinstance(a, Tensor):
        copy = a.detach().clone()
        e = trace.builder.name(name, like(copy))
        trace.args[name] = e
        recorder.know(copy, e)
        return copy
    if isinstance(a, (int, float)) and not isinstance(a, bool):
        trace.args[name] = trace.builder.name(name, a)
        return known(trace.builder, a, trace.args[name])
    if isinstance(a, (tuple, list, dict)) and any(
        isinstance(t, Tensor) for t in _flat(a)
    ):
        raise CannotSay(f"{name} holds tensors inside a {type(a).__name__}")
    trace.fixed[name] = a
    return a


def _flat(a: Any) -> list[Any]:
    return list(a.values()) if isinstance(a, dict) else list(a)


def _parameters(cls: Any, n: int) -> tuple[str, ...]:
    """What the forward calls its arguments."""
    parameters = list(inspect.signature(cls.forward).parameters.values())
    parameters = parameters if is_new_style(cls) else parameters[1:]
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}_{i}" for i in range(n - len(names))]
        else:
            names.append(p.name)
    return tuple(names[:n])
