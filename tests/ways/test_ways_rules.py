"""Rules as people write them: what the ways say of the wrong and of the right ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from gradproof.adapters.torch_adapt import adapt
from gradproof.checks import ways as check


def tensor(*shape, dtype=torch.float64, shift=0.0):
    generator = torch.Generator().manual_seed(11)
    return torch.randn(shape, generator=generator, dtype=dtype) + shift


def asked(thing, *inputs, **options):
    rule = adapt(thing, inputs, **options)
    x = rule.primal.point
    ybar = rule.primal.codomain.draw(np.random.default_rng(2))
    return check.asked(rule, x, ybar, np.zeros(x.size))


def odd(thing, *inputs, **options):
    """(slug, severity, raised) of everything that did not agree."""
    return {
        (a.slug, a.severity.value, a.failure is not None)
        for a in asked(thing, *inputs, **options)
        if not a.agreed
    }


def names(thing, *inputs):
    return {a.way for a in asked(thing, *inputs) if not a.agreed}


def effects(thing, *inputs):
    """What was disturbed, in every single way."""
    rule = adapt(thing, inputs)
    x = rule.primal.point
    ybar = rule.primal.codomain.draw(np.random.default_rng(2))
    found = set()
    for way in rule.ways():
        for part in way.parts or (way,):
            for effect in rule.vjp(*part.place(x, ybar), part).effects:
                found.add((effect.slug, effect.subject, part.factor))
    return found


def packed(t):
    """The memory behind ``t``, as a kernel reads it that assumes it packed."""
    n = t.untyped_storage().nbytes() // t.element_size()
    flat = torch.as_strided(t.detach(), (n,), (1,), 0)
    return flat[t.storage_offset() :][: t.numel()].reshape(t.shape)


# --- layouts


class ReadsCotangent(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return packed(g) * ctx.saved_tensors[0].cos()


class ReadsInput(ReadsCotangent):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * packed(ctx.saved_tensors[0]).cos()


class ReadsFirst(ReadsCotangent):
    """Reads from the beginning of the storage, with the right strides."""

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.as_strided(x.detach(), x.shape, x.stride(), 0).cos()


class ReadsRight(ReadsCotangent):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_kernel_that_assumes_a_packed_cotangent(dtype):
    assert names(ReadsCotangent, tensor(3, 4, dtype=dtype)) >= {
        "grad_output transposed",
        "grad_output sliced",
        "grad_output offset",
        "grad_output expanded along axis 1",
        "grad_output expanded from a scalar",
    }
    assert not any("x " in n for n in names(ReadsCotangent, tensor(3, 4, dtype=dtype)))


def test_a_kernel_that_assumes_packed_inputs():
    assert names(ReadsInput, tensor(2, 3, 4, 5)) >= {
        "x transposed",
        "x sliced",
        "x offset",
        "x expanded along axis 0",
        "x channels last",
    }


def test_a_kernel_that_forgets_the_storage_offset():
    assert names(ReadsFirst, tensor(3, 4)) == {"x offset", "under torch.func.vjp"}


def test_a_kernel_that_goes_by_strides():
    assert odd(ReadsRight, tensor(2, 3, 4, 5)) == {
        ("unsupported-transform", "note", True)
    }


class ViewsCotangent(ReadsCotangent):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g.view(-1) * x.reshape(-1).cos()).view(x.shape)


class ViewsInput(ReadsCotangent):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.view(-1).sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g * x.reshape(-1).cos()).reshape(x.shape)


def test_a_refused_cotangent_is_an_error_and_a_refused_input_a_warning():
    assert odd(ViewsCotangent, tensor(3, 4)) == {
        ("layout-assumed", "error", True),
        ("unsupported-transform", "note", True),
    }
    assert odd(ViewsInput, tensor(3, 4)) == {
        ("layout-assumed", "warning", True),
        ("unsupported-transform", "note", True),
    }


# --- state


class StaleMask(Function):
    """The mask of the last forward, wherever it was."""

    mask = None

    @staticmethod
    def forward(ctx, x):
        StaleMask.mask = x > 0
        return x.relu()

    @staticmethod
    def backward(ctx, g):
        return g * StaleMask.mask


class OwnMask(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = x > 0
        return x.relu()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.mask


def test_a_stale_mask_is_seen_though_its_values_are_not_the_inputs():
    assert names(StaleMask, tensor(7)) >= {
        "two graphs interleaved",
        "backward after another forward",
    }
    assert odd(OwnMask, tensor(7)) == {("unsupported-transform", "note", True)}


class DeletesState(OwnMask):
    @staticmethod
    def backward(ctx, g):
        mask = ctx.mask
        del ctx.mask
        return g * mask


def test_state_that_is_gone_at_the_second_backward_is_a_warning():
    assert ("stale-state", "warning", True) in odd(DeletesState, tensor(7))
    assert names(DeletesState, tensor(7)) == {
        "backward twice through one graph",
        "under torch.func.vjp",
    }


class SpoilsSaved(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.cos = x.cos()
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return ctx.cos.mul_(g)


def test_a_backward_that_works_in_place_on_what_it_saved():
    assert "backward twice through one graph" in names(SpoilsSaved, tensor(7))


# --- subsets, outputs, aliases


class Packs(Function):
    """Computes both gradients only where the first is needed."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            return g * w, g * x
        return None, None


class SavesNeeded(Packs):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x if ctx.needs_input_grad[0] else None, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w if ctx.needs_input_grad[0] else None, g * x


def test_a_frozen_input_must_not_take_the_other_gradient_along():
    assert names(Packs, tensor(3), tensor(3, shift=1)) == {
        "only w requires grad",
        "under torch.func.vjp",
    }
    assert ("subset-dependent", "error", True) in odd(
        SavesNeeded, tensor(3), tensor(3, shift=1)
    )


class TwoOutputs(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.exp()

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return g * x.cos() + h * x.exp()


class TwoOutputsRight(TwoOutputs):
    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        out = torch.zeros_like(x)
        out = out if g is None else out + g * x.cos()
        return out if h is None else out + h * x.exp()


def test_an_output_that_nobody_used():
    assert ("undefined-cotangent", "error", True) in odd(TwoOutputs, tensor(3))
    assert odd(TwoOutputsRight, tensor(3)) == {("unsupported-transform", "note", True)}


class CachesByPointer(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        grads = {x.data_ptr(): 2 * g * x * w}
        grads[w.data_ptr()] = g * x * x
        return grads[x.data_ptr()], grads[w.data_ptr()]


def test_one_tensor_passed_as_two_inputs():
    found = odd(CachesByPointer, tensor(3), tensor(3, shift=1))
    assert ("aliased-inputs", "error", False) in found


# --- who asks


class WritesGrad(Function):
    """Accumulates the gradient of a weight itself, and returns it too."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gw = x.t() @ g
        if w.requires_grad and w.is_leaf:
            w.grad = gw.clone() if w.grad is None else w.grad.add_(gw)
        return g @ w.t(), gw


def test_a_gradient_that_is_also_written_into_grad():
    inputs = tensor(3, 4), tensor(4, 2)
    assert ("accumulates-in-place", "error", False) in odd(WritesGrad, *inputs)
    assert names(WritesGrad, *inputs) & {"through .backward()", "under autocast"} == {
        "through .backward()",
        "under autocast",
    }


def test_the_grad_of_what_a_function_captured_stays_as_it_is():
    captured = torch.ones(3, dtype=torch.float64, requires_grad=True)
    captured.grad = torch.full((3,), 5.0, dtype=torch.float64)
    assert odd(lambda x: x * captured, tensor(3)) == set()
    assert captured.grad.tolist() == [5.0] * 3


class GraphPath(Function):
    """A differentiable path, taken when a graph is wanted, that is another function's."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.sin() if torch.is_grad_enabled() else x.cos())


def test_another_path_when_a_graph_is_recorded():
    assert ("mode-dependent", "error", False) in odd(GraphPath, tensor(3))


class Numpy(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(g.numpy() * np.cos(x.numpy()))


def test_what_cannot_be_transformed_says_so_in_a_note():
    assert odd(Numpy, tensor(3)) == {("unsupported-transform", "note", True)}
    assert "under create_graph" in names(Numpy, tensor(3))


class Amp(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


class AmpRight(Amp):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


class AmpWrong(AmpRight):
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        scale = 2 if g.dtype is torch.bfloat16 else 1
        g, w, x = g.float(), w.float(), x.float()
        return scale * g @ w.t(), x.t() @ g


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_inside_an_autocast_region(dtype):
    inputs = tensor(3, 4, dtype=dtype), tensor(4, 2, dtype=dtype)
    assert ("autocast-mismatch", "warning", True) in odd(Amp, *inputs)
    assert odd(AmpRight, *inputs) == {("unsupported-transform", "note", True)}


def test_another_number_inside_an_autocast_region():
    inputs = tensor(3, 4, dtype=torch.float32), tensor(4, 2, dtype=torch.float32)
    found = [a for a in asked(AmpWrong, *inputs) if a.way == "under autocast"]
    assert [(a.agreed, a.slug, a.severity.value) for a in found] == [
        (False, "autocast-mismatch", "error")
    ]


# --- effects


class ScalesTransposed(Function):
    """Works in place on its cotangent where that is not packed."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        out = 2 * g
        if not g.is_contiguous() and 0 not in g.stride():
            g.zero_()
        return out


def test_a_cotangent_that_is_changed_only_in_one_layout():
    found = effects(ScalesTransposed, tensor(3, 4))
    assert found == {("mutated-cotangent", "grad_output", "grad_output layout")}


class WritesBeyond(Function):
    """Clears what it takes for the tail of a packed input."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        torch.as_strided(x.detach(), (1,), (1,), x.storage_offset() + x.numel()).zero_()
        return g * x.cos()


def test_a_write_beyond_an_input_is_out_of_bounds():
    assert ("out-of-bounds", "x", "input layout") in effects(WritesBeyond, tensor(5))


class WritesInput(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            w.detach().numpy()[...] = 0.0
        return g * w, None


def test_an_input_that_is_overwritten_by_pointer():
    found = effects(WritesInput, tensor(3), tensor(3, shift=1))
    assert ("mutated-input", "w", "needs grad") in found


# --- right rules, of which nothing may be said but that they cannot be transformed

SMALL = tensor(3, 4)


class Dropout(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = (torch.rand_like(x) > 0.5).to(x.dtype)
        return x * ctx.mask

    @staticmethod
    def backward(ctx, g):
        return g * ctx.mask


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, g):
        return 3 * g


class MaxRow(Function):
    """A tie is broken by position, so that another layout may break it otherwise."""

    @staticmethod
    def forward(ctx, x):
        value, ctx.index = x.max(0)
        ctx.shape = x.shape
        return value

    @staticmethod
    def backward(ctx, g):
        return g.new_zeros(ctx.shape).scatter(0, ctx.index[None], g[None])


class WithIndex(Function):
    @staticmethod
    def forward(ctx, x):
        value, index = x.sort(-1)
        ctx.save_for_backward(index)
        ctx.mark_non_differentiable(index)
        return value, index

    @staticmethod
    def backward(ctx, g, _):
        (index,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter(-1, index, g)


class BatchNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4).double()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls = self.calls + 1
        return self.norm(x) * self.calls


@torch.library.custom_op("gradproof_ways::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


cube.register_autograd(
    lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def spd(n):
    a = tensor(n, n)
    return a @ a.t() + n * torch.eye(n, dtype=torch.float64)


RIGHT = {
    "sin": (torch.sin, SMALL),
    "softmax": (lambda x: x.softmax(-1), SMALL),
    "matmul": (torch.matmul, SMALL, tensor(4, 2)),
    "matmul float32": (torch.matmul, SMALL.float(), tensor(4, 2).float()),
    "matmul bfloat16": (torch.matmul, SMALL.bfloat16(), tensor(4, 2).bfloat16()),
    "relu of a product": (lambda x, w: (x @ w).relu(), SMALL, tensor(4, 40)),
    "relu of a product, float32": (
        lambda x, w: (x @ w).relu(),
        tensor(30, 64).float(),
        tensor(64, 40).float(),
    ),
    "exp of a product": (
        lambda x, w: (x @ w).exp().sum(0),
        tensor(30, 64).float() / 8,
        tensor(64, 40).float() / 2,
    ),
    "complex": (lambda z: z.abs() * z, torch.complex(tensor(3), tensor(3, shift=1))),
    "scalar": (lambda x: (x * x).sum(), SMALL),
    "single": (torch.exp, tensor()),
    "empty": (torch.exp, tensor(0, 3)),
    "acosh near its edge": (torch.acosh, tensor(5).abs() + 1.01),
    "asin": (torch.asin, tensor(5).tanh()),
    "cholesky": (lambda a: torch.linalg.cholesky(a), spd(3)),
    "eigenvalues": (torch.linalg.eigvalsh, spd(3)),
    "difference of two": (lambda a, b: (a - b).abs(), tensor(4), tensor(4, shift=1)),
    "quotient of a difference": (
        lambda a, b: 1 / (a - b),
        tensor(4),
        tensor(4, shift=1),
    ),
    "zeros": (lambda b: b * 2, torch.zeros(3, dtype=torch.float64)),
    "item": (lambda x: x * x.detach().sum().item(), SMALL),
    "random": (lambda x: x * torch.rand_like(x), SMALL),
    "dropout": (Dropout, SMALL),
    "in place": (InPlace, SMALL),
    "max of ties": (MaxRow, SMALL),
    "sorted with index": (WithIndex, SMALL),
    "module with state": (BatchNorm(), tensor(6, 4)),
    "custom op": (cube, SMALL),
    "numpy": (Numpy, SMALL),
    "one differentiable output": (lambda x: (x.sin(), x.detach()), SMALL),
    "unused input": (lambda x, w: x.sin(), SMALL, tensor(2)),
    "images": (
        torch.nn.functional.conv2d,
        tensor(2, 3, 5, 5),
        tensor(4, 3, 3, 3),
        tensor(4),
    ),
    "half": (lambda x: x * 3, tensor(4).half() * 20000),
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_a_right_rule(name):
    thing, *inputs = RIGHT[name]
    assert odd(thing, *inputs) <= {("unsupported-transform", "note", True)}
    assert effects(thing, *inputs) == set()


def test_the_users_tensors_and_random_state_stay_as_they_were():
    x = tensor(3, 4)
    before, state = x.clone(), torch.get_rng_state()
    asked(Dropout, x)
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), state)


# --- what it costs


class Counting(Function):
    calls: ClassVar = {"forward": 0, "backward": 0}

    @staticmethod
    def forward(x):
        Counting.calls["forward"] += 1
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        Counting.calls["backward"] += 1
        return g * ctx.saved_tensors[0].cos()


def test_all_ways_cost_some_thirty_calls():
    rule = adapt(Counting, (tensor(64),))
    x = rule.primal.point
    Counting.calls.update(forward=0, backward=0)
    check.asked(rule, x, np.ones(64), np.zeros(64))
    assert Counting.calls["forward"] <= 35
    assert Counting.calls["backward"] <= 30
