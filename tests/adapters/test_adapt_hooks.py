"""Watching custom Functions: all are seen, and everything is put back."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction

from gradproof.adapters import torch_hooks
from gradproof.adapters.torch_hooks import watching


class Double(Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


early = Double.apply  # captured before anybody watches


class Boxed(Double):
    boxed_grads_call = True

    @staticmethod
    def backward(ctx, grads):
        return grads[0] * 2


class OwnApply(Double):
    @classmethod
    def apply(cls, a):
        return super().apply(a + 0)


def state():
    return (
        torch.autograd.Function.__dict__["apply"].__func__.__code__,
        BackwardCFunction.apply,
        BackwardCFunction.__dict__.get("apply_boxed"),
        "_gradproof_apply_hook" in sys.modules,
    )


def leaf():
    return torch.ones(3, requires_grad=True)


class Seen:
    def __init__(self):
        self.applied, self.ran = [], []

    def on_apply(self, cls, args, kwargs, original):
        self.applied.append(cls.__name__)
        return original(*args, **kwargs)

    def on_backward(self, node, grads, original):
        self.ran.append(node._forward_cls.__name__)
        return original(*grads)


@pytest.mark.parametrize(
    "call",
    [early, Double.apply, Boxed.apply, OwnApply.apply],
    ids=["early", "plain", "boxed", "own"],
)
def test_every_way_of_applying_is_seen(call):
    seen = Seen()
    with watching(seen.on_apply, seen.on_backward):
        a = leaf()
        call(a).sum().backward()
    assert len(seen.applied) == len(seen.ran) == 1
    assert seen.applied == seen.ran
    assert torch.equal(a.grad, torch.full((3,), 2.0))


def test_functions_of_pytorch_itself_are_passed_over():
    seen = Seen()
    with watching(seen.on_apply, seen.on_backward):
        a = leaf()
        torch.utils.checkpoint.checkpoint(early, a, use_reentrant=True).sum().backward()
    assert set(seen.applied) == {"Double"}
    assert torch.equal(a.grad, torch.full((3,), 2.0))


def test_everything_is_put_back():
    before = state()
    with watching(lambda *a: None, lambda *a: None):
        assert state() != before
        with watching():
            assert state() != before
        assert state() != before
    assert state() == before


def test_everything_is_put_back_by_an_exception():
    before = state()
    with pytest.raises(ValueError, match="as asked"), watching():
        raise ValueError("as asked")
    assert state() == before
    assert torch_hooks._WATCHERS == []


def test_what_a_handler_gives_is_what_the_caller_gets():
    with watching(lambda cls, args, kwargs, original: original(*args, **kwargs) + 1):
        assert torch.equal(early(leaf()), torch.full((3,), 3.0))
    with watching(on_backward=lambda node, grads, original: original(*grads) * 10):
        a = leaf()
        early(a).sum().backward()
    assert torch.equal(a.grad, torch.full((3,), 20.0))


def test_the_inner_watcher_hears_and_the_outer_again_afterwards():
    outer, inner = Seen(), Seen()
    with watching(outer.on_apply):
        with watching(inner.on_apply):
            early(leaf())
        early(leaf())
    assert (len(outer.applied), len(inner.applied)) == (1, 1)


def test_other_threads_are_left_alone():
    seen, results = Seen(), []

    def work():
        a = leaf()
        early(a).sum().backward()
        results.append(a.grad)

    with watching(seen.on_apply, seen.on_backward):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen.applied == seen.ran == []
    assert torch.equal(results[0], torch.full((3,), 2.0))


def test_watching_works_where_apply_has_another_shape(monkeypatch):
    """A PyTorch whose ``apply`` has no cell: the attribute is replaced instead."""

    def apply(cls, *args, **kwargs):
        return super(Function, cls).apply(*args, **kwargs)

    monkeypatch.setattr(Function, "apply", classmethod(apply))
    before = Function.__dict__["apply"]
    seen = Seen()
    with watching(seen.on_apply):
        Double.apply(leaf())
    assert seen.applied == ["Double"]
    assert Function.__dict__["apply"] is before
