"""What an inspected vjp shows: form, raw returns, side effects; each with a right twin."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from gradproof.adapters import adapt
from gradproof.verdict import Effect


def x(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def inspected(thing, *inputs, ybar=None):
    rule = adapt(thing, inputs)
    if ybar is None:
        ybar = rule.primal.codomain.draw(np.random.default_rng(0))
    return rule.inspect(rule.primal.point, ybar)


class Double(Function):
    """Right; every fault below is one method of it."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class MutatesCotangent(Double):
    @staticmethod
    def backward(ctx, g):
        return g.mul_(2)


class MutatesCotangentRaw(Double):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        g.numpy()[...] *= 2
        return g.clone()


class MutatesInput(Double):
    @staticmethod
    def forward(ctx, a):
        out = a * 2
        a[0] = 0
        return out


class MutatesInputRaw(Double):
    @staticmethod
    def forward(ctx, a):
        out = a * 2
        a.numpy(force=True)[1:] = 0
        return out


class MutatesInputInBackward(Double):
    @staticmethod
    def backward(ctx, g):
        ctx.saved_tensors[0].numpy(force=True)[0] = 0
        return g * 2


class MutatesSaved(Double):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a, torch.full_like(a, 2))
        return a * 2

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[1].mul_(g)


class UnmarkedInPlace(Double):
    @staticmethod
    def forward(ctx, a):
        return a.mul_(2)


class MarkedInPlace(Double):
    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)


class Identity(Double):
    @staticmethod
    def forward(ctx, a):
        return a

    @staticmethod
    def backward(ctx, g):
        return g


class HoldsOutput(Double):
    @staticmethod
    def forward(ctx, a):
        ctx.out = a * 2
        return ctx.out


class SavesOutput(Double):
    @staticmethod
    def forward(ctx, a):
        out = a * 2
        ctx.save_for_backward(out)
        return out


class DrawsInBackward(Double):
    @staticmethod
    def backward(ctx, g):
        return g * 2 + 0 * torch.rand_like(g)


class ReplaysInBackward(Double):
    @staticmethod
    def backward(ctx, g):
        with torch.random.fork_rng(devices=[]):
            return g * 2 + 0 * torch.rand_like(g)


@pytest.mark.parametrize(
    ("thing", "slug", "subject", "detail"),
    [
        (MutatesCotangent, "mutated-cotangent", "grad_output", "4 of 4 entries changed"),
        (MutatesCotangentRaw, "mutated-cotangent", "grad_output", "4 of 4 entries changed"),
        (MutatesInput, "mutated-input", "a", "1 of 4 entries changed"),
        (MutatesInputRaw, "mutated-input", "a", "3 of 4 entries changed"),
        (MutatesInputInBackward, "mutated-input", "a", "1 of 4 entries changed"),
        (MutatesSaved, "mutated-input", "saved tensor 1", "4 of 4 entries changed"),
        (UnmarkedInPlace, "unmarked-inplace", "a", "4 of 4 entries changed"),
        (HoldsOutput, "leaked-graph", "out", "alive after the graph was dropped"),
        (DrawsInBackward, "draws-in-backward", "backward", "from torch"),
        (Double, None, None, None),
        (MarkedInPlace, None, None, None),
        (Identity, None, None, None),
        (SavesOutput, None, None, None),
        (ReplaysInBackward, None, None, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inside", [False, True])
def test_each_effect_is_seen_and_right_twins_have_none(
    thing, slug, subject, detail, inside
):
    called = (lambda a: thing.apply(a * 1) + 1) if inside else thing
    reply = inspected(called, x(4), ybar=np.array([0.5, 1.5, -0.5, 0.25]))
    expected = () if slug is None else (Effect(slug, subject, detail),)
    if inside and slug == "leaked-graph":
        return  # the outer result is not what is held
    assert reply.failure is None
    if inside and thing in (MutatesCotangent, MutatesCotangentRaw):
        # A cotangent that the engine passes through is the caller's own.
        assert reply.effects[0] == expected[0]
        return
    assert reply.effects == expected


def test_the_answer_is_the_plain_one():
    rule = adapt(Double, x(4))
    ybar = np.arange(4.0)
    plain, watched = (f(rule.primal.point, ybar) for f in (rule.vjp, rule.inspect))
    assert np.array_equal(plain.value, watched.value)


def test_the_backward_that_ran_is_named_and_what_it_saw():
    form = inspected(Double, x(2, 3)).form
    assert form.graph
    assert form.entered == ("Double",)
    assert form.expected_entry == "Double"
    assert form.saw == "strides (3, 1), offset 0; grad mode off"
    assert form.arity is None
    [got] = form.returned
    assert (got.path, got.shape, got.dtype, got.needed) == (
        "a",
        (2, 3),
        "float64",
        True,
    )
    assert (got.expected_shape, got.expected_dtype) == ((2, 3), "float64")


def test_a_backward_that_never_ran_is_missed():
    form = inspected(Identity.forward and (lambda a: a * 2), x(3)).form
    assert form.entered == ()
    assert form.expected_entry == ""
    called = lambda a: Double.apply(a.detach()) + 0 * a  # noqa: E731
    form = inspected(called, x(3)).form
    assert form.expected_entry == "Double"
    assert form.entered == ()
    assert form.cuts[0].startswith("detach (test_adapt_inspect.py:")


def test_forward_in_place_of_apply_has_a_graph_of_its_own_and_no_backward():
    class Free(Double):
        @staticmethod
        def forward(ctx, a):
            return a.detach() * 2

    rule = adapt(lambda a: Free.forward(None, a), x(3))
    assert not rule.differentiable
    form = rule.inspect(rule.primal.point, np.ones(3)).form
    assert not form.graph
    assert form.detached == ("out",)
    assert form.unused == ("a",)


class NewDouble(Function):
    @staticmethod
    def forward(a):
        return a * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Ctx:
    def save_for_backward(self, *tensors):
        pass


BYPASSES = {
    "the forward itself": (NewDouble.forward, ("NewDouble",)),
    "called inside": (lambda a: Double.forward(Ctx(), a) + 1, ("Double",)),
    "two": (
        lambda a: Double.forward(Ctx(), a) + NewDouble.forward(a),
        ("Double", "NewDouble"),
    ),
    "applied": (Double, ()),
    "applied inside": (lambda a: NewDouble.apply(a), ()),
    "both": (lambda a: NewDouble.apply(a) + NewDouble.forward(a), ()),
    "inherited, inside apply": (SavesOutput, ()),
    "none at all": (torch.sin, ()),
}


@pytest.mark.parametrize("name", BYPASSES)
def test_a_forward_that_is_called_where_apply_is_due_is_named(name):
    thing, bypassed = BYPASSES[name]
    rule = adapt(thing, x(3))
    form = rule.inspect(rule.primal.point, np.ones(3)).form
    assert form.bypassed == bypassed
    if len(bypassed) == 1:
        assert form.expected_entry == bypassed[0]
        assert form.entered == ()
        assert rule.custom == ()
        assert rule.source.name == bypassed[0]


def test_listening_leaves_the_users_profiler_in_place():
    import sys

    seen = []

    def profiler(frame, event, arg):
        seen.append(event)

    sys.setprofile(profiler)
    try:
        adapt(Double, x(3))
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)


class Two(Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b.sum(), b + 0.0

    @staticmethod
    def backward(ctx, g, h):
        raise NotImplementedError


def returning(*values):
    """A Function of (a, b) whose backward returns ``values``."""

    class Returns(Two):
        @staticmethod
        def backward(ctx, g, h):
            return values if len(values) != 1 else values[0]

    return Returns


def test_none_for_an_argument_left_at_its_default_is_no_surplus():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t, k=2.0):
            return t * k

        @staticmethod
        def backward(ctx, g):
            return g * 2.0, None

    assert inspected(Scaled, x(2)).form.arity is None


@pytest.mark.parametrize(
    ("values", "arity", "shapes", "dtypes", "failed"),
    [
        ((x(2), x(2, 3)), None, [(2,), (2, 3)], ["float64", "float64"], False),
        ((x(2).float(), x(2, 3)), None, [(2,), (2, 3)], ["float32", "float64"], False),
        ((x(5, 2), x(2, 3)), None, [(5, 2), (2, 3)], ["float64", "float64"], False),
        ((x(7), x(2, 3)), None, [(7,), (2, 3)], ["float64", "float64"], True),
        ((x(2), x(2, 3), None), (3, 2), [(2,), (2, 3)], ["float64", "float64"], False),
        ((x(2),), (1, 2), [(2,)], ["float64"], True),
    ],
)
def test_the_raw_return_is_seen_before_the_engine_mends_it(
    values, arity, shapes, dtypes, failed
):
    reply = inspected(returning(*values), x(2), x(2, 3))
    assert (reply.failure is not None) == failed
    assert reply.form.arity == arity
    assert [r.shape for r in reply.form.returned] == shapes
    assert [r.dtype for r in reply.form.returned] == dtypes


def test_none_for_an_input_is_seen_and_counts_as_unused():
    reply = inspected(returning(None, x(2, 3)), x(2), x(2, 3))
    assert reply.form.returned[0].is_none
    assert reply.form.unused == ("a",)
    assert np.array_equal(reply.value[:2], [0, 0])


def test_an_output_without_a_graph_is_named():
    class Hides(Function):
        @staticmethod
        def forward(ctx, a):
            hidden = a * 3
            ctx.mark_non_differentiable(hidden)
            return a * 2, hidden

        @staticmethod
        def backward(ctx, g, _):
            return g * 2

    form = inspected(Hides, x(3)).form
    assert form.detached == ("out[1]",)
    assert form.graph
    assert inspected(Double, x(3)).form.detached == ()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda a: a * a.detach(), "detach"),
        (lambda a: a * a.data, "data"),
        (lambda a: a * float(a.detach().sum()), "detach"),
        (lambda a: a * torch.tensor(a.tolist(), dtype=a.dtype), "tolist"),
        (lambda a: a.sin() * 2, None),
        (lambda a: Double.apply(a), None),
        (lambda a: a + torch.zeros_like(a), None),
        (lambda a: a[a > 0], None),
    ],
    ids=["detach", "data", "float", "tolist", "none", "apply", "zeros", "mask"],
)
def test_cuts_of_the_graph_are_found_by_line(call, name):
    cuts = inspected(call, x(3)).form.cuts
    if name is None:
        assert cuts == ()
    else:
        assert [c.partition(" ")[0] for c in cuts] == [name]
        assert "(test_adapt_inspect.py:" in cuts[0]


def test_no_grad_is_a_cut():
    def call(a):
        with torch.no_grad():
            scale = a.abs().max()
        return a / scale

    [first, *_] = inspected(call, x(3)).form.cuts
    assert first.startswith("abs (test_adapt_inspect.py:")


def test_a_failing_backward_is_a_failure_with_its_place():
    class Fails(Double):
        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("on purpose")

    reply = inspected(Fails, x(3))
    assert reply.value is None
    assert reply.failure.kind == "ZeroDivisionError"
    assert reply.failure.file == __file__
    assert reply.form.entered == ("Fails",)


def test_replay_gives_the_backward_the_random_state_of_the_forward():
    class Dropout(Function):
        @staticmethod
        def forward(ctx, a):
            return a * (torch.rand_like(a) > 0.5)

        @staticmethod
        def backward(ctx, g):
            return g * (torch.rand_like(g) > 0.5)

    rule = adapt(Dropout, torch.ones(64, dtype=torch.float64))
    p = rule.primal.point
    mask = rule.primal.value(p).value
    assert np.array_equal(rule.replay(p, np.ones(64)).value, mask)
    assert not np.array_equal(rule.vjp(p, np.ones(64)).value, mask)


def test_nested_functions_are_all_entered():
    class Outer(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 4

        @staticmethod
        def backward(ctx, g):
            return Double.apply(Double.apply(g))

    rule = adapt(lambda a: Outer.apply(Double.apply(a)), x(3))
    assert [c.name for c in rule.custom] == ["Outer", "Double"] or [
        c.name for c in rule.custom
    ] == ["Double", "Outer"]
    form = rule.inspect(rule.primal.point, np.ones(3)).form
    assert form.entered == ("Outer", "Double")
