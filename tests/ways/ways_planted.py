"""One rule in many wrong forms, each wrong in one way of asking only.

``planted(name)`` is a fresh class for the way of that name: y = x·w and z = sin(x) + w,
new style, with a batching rule. Its gradients are right but where ``name`` asks.
"""

from __future__ import annotations

import weakref

import torch
from torch._C import _functorch

SHAPE = (2, 3, 4, 5)


def inputs(dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    return tuple(
        torch.randn(SHAPE, generator=generator, dtype=dtype).requires_grad_()
        for _ in range(2)
    )


class Right:
    """Where a wrong form errs; the right one nowhere."""

    def __init__(self):
        self.state = {}

    def forward(self, x, w):
        """Before anything is computed."""

    def setup(self, ctx, x, w):
        """After the forward."""

    def saved(self, x, w):
        """What the forward saves for the backward."""
        return x, w

    def begin(self, ctx):
        """Before the backward reads what was saved."""

    def numbers(self, ctx, x, w):
        """What the backward takes for its inputs."""
        return x, w

    def wrong(self, ctx, x, w, g, h):
        """Whether the backward is wrong here."""
        return False

    def finish(self, ctx, x, w, gx, gw):
        """What the backward returns."""
        return gx, gw

    def batch_wrong(self, in_dims):
        """Whether the batching rule is wrong here."""
        return False


def function_of(form):
    """The Function whose mistake is ``form``."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(x, w):
            form.forward(x, w)
            return x * w, x.sin() + w

        @staticmethod
        def setup_context(ctx, args, output):
            ctx.save_for_backward(*form.saved(*args))
            ctx.set_materialize_grads(False)
            form.setup(ctx, *args)

        @staticmethod
        def backward(ctx, g, h):
            form.begin(ctx)
            x, w = form.numbers(ctx, *ctx.saved_tensors)
            gx, gw = torch.zeros_like(x), torch.zeros_like(w)
            if g is not None:
                gx, gw = gx + g * w, gw + g * x
            if h is not None:
                gx, gw = gx + h * x.cos(), gw + h
            if form.wrong(ctx, x, w, g, h):
                gx, gw = 1.5 * gx, 1.5 * gw
            return form.finish(ctx, x, w, gx, gw)

        @staticmethod
        def vmap(info, in_dims, x, w):
            def first(t, axis):
                return t.unsqueeze(0) if axis is None else t.movedim(axis, 0)

            factor = 1.5 if form.batch_wrong(in_dims) else 1.0
            y, z = Planted.apply(first(x, in_dims[0]), first(w, in_dims[1]))
            return (factor * y, z), 0

    return Planted


# --- layouts: a kernel takes another path for one of them, and errs in it


def _memory(t):
    """Strides, offset and misalignment; None where there is no memory to look at."""
    if t is None or _functorch.is_functorch_wrapped_tensor(t):
        return None
    if _functorch.is_legacy_batchedtensor(t) or t.shape != SHAPE:
        return None
    return t.stride(), t.storage_offset() > 0, t.data_ptr() % 16 != 0


# (strides, offset, unaligned) of a float64 tensor of SHAPE.
MEMORY = {
    "transposed": ((60, 20, 1, 4), False, False),
    "sliced": ((120, 40, 10, 2), False, False),
    "offset": ((4 * 3 * 21, 4 * 21, 21, 1), True, False),
    "unaligned": ((60, 20, 5, 1), False, True),
    "expanded along axis 3": ((12, 4, 1, 0), False, False),
    "expanded along axis 0": ((0, 20, 5, 1), False, False),
    "expanded from a scalar": ((0, 0, 0, 0), False, False),
    "channels last": ((60, 1, 15, 3), False, False),
}


class Layout(Right):
    def __init__(self, which, layout):
        super().__init__()
        self.which, self.memory = which, MEMORY[layout]

    def wrong(self, ctx, x, w, g, h):
        t = {"x": x, "w": w, "grad_output[0]": g, "grad_output[1]": h}[self.which]
        return _memory(t) == self.memory


# --- calls


class Twice(Right):
    """Keeps what it computed of the last tensor, and works on it in place later."""

    def forward(self, x, w):
        last = self.state.get("last", lambda: None)()
        self.again = last is x and self.state.get("spoilt", False)
        if last is not x:
            self.state["spoilt"] = False
            self.state["last"] = weakref.ref(x)

    def setup(self, ctx, x, w):
        ctx.again = self.again

    def wrong(self, ctx, x, w, g, h):
        self.state["spoilt"] = True
        return ctx.again


class Retained(Right):
    """Uses up on ctx what the second backward needs."""

    def wrong(self, ctx, x, w, g, h):
        ctx.used = getattr(ctx, "used", 0) + 1
        return ctx.used > 1


class Interleaved(Right):
    """Keeps its input on the class, where grad is needed."""

    def setup(self, ctx, x, w):
        if any(ctx.needs_input_grad):
            self.state["x"] = x

    def numbers(self, ctx, x, w):
        return self.state["x"], w


class AfterForward(Right):
    """Fills a cache for inference, until it trains again; the backward prefers it."""

    def setup(self, ctx, x, w):
        self.state.clear()
        if not any(ctx.needs_input_grad):
            self.state["x"] = x

    def numbers(self, ctx, x, w):
        return self.state.get("x", x), w


class Kept(Right):
    """Hands out the buffer that it fills again at the next call."""

    def finish(self, ctx, x, w, gx, gw):
        if _memory(gx) is None:
            return gx, gw
        buffer = self.state.setdefault(gx.dtype, torch.empty_like(gx))
        return buffer.copy_(gx), gw


# --- who needs, who uses


class Needs(Right):
    def __init__(self, *needs):
        super().__init__()
        self.needs = needs

    def wrong(self, ctx, x, w, g, h):
        return tuple(ctx.needs_input_grad) == self.needs


class Unused(Right):
    def __init__(self, i):
        super().__init__()
        self.i = i

    def wrong(self, ctx, x, w, g, h):
        return (g, h)[self.i] is None


class Aliased(Right):
    def setup(self, ctx, x, w):
        ctx.same = x is w

    def wrong(self, ctx, x, w, g, h):
        return ctx.same


# --- who asks


class Backward(Right):
    """Adds into .grad itself, and returns the gradient as well."""

    def finish(self, ctx, x, w, gx, gw):
        if _memory(x) is not None and x.is_leaf and x.grad is not None:
            x.grad.add_(gx)
        return gx, gw


class CreateGraph(Right):
    def wrong(self, ctx, x, w, g, h):
        return torch.is_grad_enabled() and not _functorch.is_gradtrackingtensor(x)


class Checkpoint(Right):
    """Shares a workspace between the forward and the backward."""

    def forward(self, x, w):
        self.state["workspace"] = "forward"

    def begin(self, ctx):
        self.state["workspace"] = "backward"

    def wrong(self, ctx, x, w, g, h):
        return self.state["workspace"] != "backward"


class Func(Right):
    def wrong(self, ctx, x, w, g, h):
        return _functorch.is_gradtrackingtensor(x)


class Batched(Right):
    def wrong(self, ctx, x, w, g, h):
        return g is not None and _functorch.is_legacy_batchedtensor(g)


class Edited(Right):
    """Saves what shares memory with an input, and no version counter."""

    def __init__(self, which):
        super().__init__()
        self.which = which

    def saved(self, x, w):
        kept = {"x": x, "w": w}
        if _memory(kept[self.which]) is not None:
            kept[self.which] = kept[self.which].data
        return tuple(kept.values())


class Vmap(Right):
    def __init__(self, *in_dims):
        super().__init__()
        self.in_dims = in_dims

    def batch_wrong(self, in_dims):
        return in_dims == self.in_dims


class Autocast(Right):
    def setup(self, ctx, x, w):
        ctx.autocast = torch.is_autocast_enabled("cpu")

    def wrong(self, ctx, x, w, g, h):
        return ctx.autocast


FORMS = {
    **{
        f"{which} {layout}": (lambda which=which, layout=layout: Layout(which, layout))
        for which in ("grad_output[0]", "grad_output[1]")
        for layout in MEMORY
        if layout != "expanded along axis 0"
    },
    **{
        f"{which} {layout}": (lambda which=which, layout=layout: Layout(which, layout))
        for which in ("x", "w")
        for layout in MEMORY
        if layout not in ("expanded along axis 3", "expanded from a scalar")
    },
    "asked twice in a row": Twice,
    "backward twice through one graph": Retained,
    "two graphs interleaved": Interleaved,
    "backward after another forward": AfterForward,
    "result kept while another is computed": Kept,
    "only x requires grad": lambda: Needs(True, False),
    "only w requires grad": lambda: Needs(False, True),
    "out[0] unused": lambda: Unused(0),
    "out[1] unused": lambda: Unused(1),
    "one tensor as both x and w": Aliased,
    "through .backward()": Backward,
    "under create_graph": CreateGraph,
    "under checkpoint": Checkpoint,
    "with batched grad_outputs": Batched,
    "under torch.func.vjp": Func,
    "x edited in place before backward": lambda: Edited("x"),
    "w edited in place before backward": lambda: Edited("w"),
    "under vmap": lambda: Vmap(0, 0),
    "under vmap, batched along the last axis": lambda: Vmap(4, 4),
    "under vmap over x alone": lambda: Vmap(0, None),
    "under vmap over w alone": lambda: Vmap(None, 0),
    "under autocast": Autocast,
}
