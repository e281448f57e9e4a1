"""Nothing outside a call is disturbed, whether it returns or raises."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.autograd import Function

from gradproof.adapters import adapt
from gradproof.adapters.torch_state import State


def x(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def snapshot(tensors=()):
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": str(np.random.get_state()),  # noqa: NPY002
        "random": random.getstate(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "tensors": [
            (t.tolist(), t.requires_grad, None if t.grad is None else t.grad.tolist())
            for t in tensors
        ],
    }


class Rude(Function):
    """Disturbs whatever it can, in the forward and in the backward."""

    fail = ""

    @staticmethod
    def disturb():
        torch.set_default_dtype(torch.float32 if torch.get_default_dtype() is
                                torch.float64 else torch.float64)  # fmt: skip
        torch.manual_seed(3)
        np.random.rand(3)  # noqa: NPY002
        random.random()
        torch.set_grad_enabled(not torch.is_grad_enabled())
        torch.set_num_threads(torch.get_num_threads() + 1)

    @staticmethod
    def forward(ctx, a):
        Rude.disturb()
        if Rude.fail == "forward":
            raise ValueError("as asked")
        return a * 2

    @staticmethod
    def backward(ctx, g):
        Rude.disturb()
        if Rude.fail == "backward":
            raise ValueError("as asked")
        return g * 2


def everything(rule):
    """Every question that a rule takes."""
    p, ybar = rule.primal.point, np.ones(rule.primal.codomain.size)
    rule.primal.value(p)
    rule.vjp(p, ybar)
    rule.inspect(p, ybar)
    rule.replay(p, ybar)
    rule.jvp(p, p)
    rule.forward.lifted()
    rule.in_precision("float32")
    rule.derived("second order")
    for witness in rule.witnesses():
        witness.vjp(p, ybar)


@pytest.mark.parametrize("fail", ["", "forward", "backward"])
@pytest.mark.parametrize(
    "mode", [torch.enable_grad, torch.no_grad, torch.inference_mode]
)
def test_the_surroundings_are_as_before(fail, mode, monkeypatch):
    a = x(3).requires_grad_()
    a.grad = torch.full_like(a, 7.0)
    with mode():
        before = snapshot([a])
        rule = adapt(Rude, a)
        monkeypatch.setattr(Rude, "fail", fail)
        everything(rule)
        assert snapshot([a]) == before
    if not fail:
        assert rule.vjp(rule.primal.point, np.ones(3)).value == pytest.approx([2, 2, 2])
    if fail:
        assert rule.vjp(rule.primal.point, np.ones(3)).failure.message == "as asked"


def test_the_surroundings_are_as_before_when_adapt_itself_raises(monkeypatch):
    monkeypatch.setattr(Rude, "fail", "forward")
    a = x(3)
    before = snapshot([a])
    with pytest.raises(Exception, match="as asked"):
        adapt(Rude, a)
    assert snapshot([a]) == before


def test_the_snapshot_above_can_tell():
    before = snapshot()
    Rude.disturb()
    after = snapshot()
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(before["threads"])
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"torch", "numpy", "random", "grad", "dtype", "threads"}


def test_a_draw_is_a_function_and_does_not_move_the_users_generators():
    generator = torch.Generator().manual_seed(1)
    numbers = np.random.default_rng(1)
    python = random.Random(1)

    def noisy(a, torch_generator, numpy_generator):
        noise = torch.rand(a.shape, generator=torch_generator, dtype=a.dtype)
        noise = noise + torch.rand(a.shape, dtype=a.dtype) + numpy_generator.random()
        return a * (noise + python.random() + np.random.rand())  # noqa: NPY002

    states = generator.get_state(), numbers.bit_generator.state, python.getstate()
    rule = adapt(noisy, (x(3), generator, numbers))
    values = [rule.primal.value(rule.primal.point).value for _ in range(3)]
    torch.rand(5)
    np.random.rand(5)  # noqa: NPY002
    random.random()
    values.append(rule.primal.value(rule.primal.point).value)
    assert all(np.array_equal(v, values[0]) for v in values)
    assert torch.equal(generator.get_state(), states[0])
    assert numbers.bit_generator.state == states[1]
    assert python.getstate() == states[2]


def test_inputs_are_copies_and_are_never_written():
    def writes(a, fixed, index, array):
        a.mul_(0)
        fixed.mul_(0)
        index.mul_(0)
        array[:] = 0
        return a + 1

    a, fixed, index, array = x(3), x(3), torch.arange(3), np.ones(3)
    kept = a.clone(), fixed.clone(), index.clone(), array.copy()
    everything(adapt(writes, (a.requires_grad_(), fixed, index, array)))
    assert all(torch.equal(t, k) for t, k in zip((a, fixed, index), kept, strict=False))
    assert np.array_equal(array, kept[3])


def test_containers_are_fresh_at_every_call():
    def empties(items):
        return items.pop() * 2

    items = [x(2)]
    rule = adapt(empties, (items,))
    rule.primal.value(rule.primal.point)
    assert rule.primal.value(rule.primal.point).failure is None
    assert len(items) == 1


class Counting(torch.nn.Module):
    """Keeps state in a buffer, in an attribute, and in batch statistics."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3, dtype=torch.float64)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("absent", None)
        self.last = torch.zeros(2, 3, dtype=torch.float64)
        self.cache = None
        self.fail = False

    def forward(self, a):
        self.count += 1
        self.last = a.detach()
        self.extra = self.cache = self.absent = a.detach()
        out = self.norm(a) * self.count
        if self.fail:
            self.norm.eval()
            raise ValueError("as asked")
        return out


@pytest.mark.parametrize("train", [True, False])
def test_buffers_attributes_and_modes_of_a_module_are_as_before(train):
    module = Counting().train(train)
    last, weight = module.last, module.norm.weight
    state = {k: v.clone() for k, v in module.state_dict().items()}
    rule = adapt(module, x(2, 3))
    values = [rule.primal.value(rule.primal.point).value for _ in range(2)]
    everything(rule)
    module.fail = True
    everything(rule)
    assert np.array_equal(*values)
    assert all(torch.equal(v, state[k]) for k, v in module.state_dict().items())
    assert module.last is last
    assert not last.any()
    assert "extra" not in module.__dict__
    assert module.cache is None
    assert module.absent is None
    assert "absent" in module._buffers
    assert module.norm.weight is weight
    assert weight.grad is None
    assert module.training is module.norm.training is train


@pytest.mark.parametrize("how", ["closure", "global", "method", "partial"])
def test_a_module_that_a_function_reaches_is_kept_too(how):
    module = Counting()
    if how == "closure":

        def call(a):
            return module(a)
    elif how == "global":
        space = {"module": module}
        exec("def call(a):\n    return module(a)", space)
        call = space["call"]
    elif how == "method":
        call = module.forward
    else:
        import functools

        call = functools.partial(lambda m, a: m(a), module)
    everything(adapt(call, x(2, 3)))
    assert module.count == 0
    assert module.norm.num_batches_tracked == 0


def test_leaves_that_are_not_ours_keep_their_grad():
    w = x(3).requires_grad_()
    w.grad = torch.ones_like(w)
    rule = adapt(lambda a: a * w, x(3))
    everything(rule)
    assert torch.equal(w.grad, torch.ones_like(w))
    assert [leaf.path for leaf in rule.primal.domain] == ["a"]


def test_reset_comes_before_every_forward():
    cache = []
    calls = []

    def cached(a):
        cache.append(a)
        return a * len(cache)

    def clear():
        calls.append(1)
        cache.clear()

    rule = adapt(cached, x(3), reset=clear)
    n = len(calls)
    first = rule.primal.value(rule.primal.point).value
    second = rule.primal.value(rule.primal.point).value
    assert np.array_equal(first, second)
    assert rule.vjp(rule.primal.point, np.ones(3)).value == pytest.approx([1, 1, 1])
    assert len(calls) == n + 3


def test_a_state_learns_which_generators_are_drawn_from():
    state = State()
    with state.watched():
        np.random.rand()  # noqa: NPY002
    before = str(np.random.get_state())  # noqa: NPY002
    draws = []
    for _ in range(2):
        with state:
            draws.append(np.random.rand())  # noqa: NPY002
    assert draws[0] == draws[1]
    assert str(np.random.get_state()) == before  # noqa: NPY002
