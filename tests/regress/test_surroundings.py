"""What stands around a call: saved-tensor hooks, sys.exit, inference mode, sparse outputs."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch.autograd import Function
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

import gradproof
from gradproof import Verdict

X = torch.linspace(-1, 2, 6, dtype=torch.float64)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


def offloaded(x):
    with save_on_cpu():
        return Square.apply(x)


def as_it_is(x):
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        return Square.apply(x) * x


def checkpointed(x):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(Square.apply, x, use_reentrant=False)


@pytest.mark.parametrize("thing", [offloaded, as_it_is, checkpointed])
def test_what_hooks_keep_is_not_the_rules_to_answer_for(thing):
    report = gradproof.check(thing, X)
    assert report.verdict is Verdict.PASS
    assert {f.slug for f in report.findings} <= {"unsupported-transform"}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_a_reentrant_checkpoint_is_refused_in_one_sentence():
    from torch.utils.checkpoint import checkpoint

    def old(x):
        return checkpoint(Square.apply, x, use_reentrant=True)

    said = "old uses torch.utils.checkpoint with use_reentrant=True, which refuses"
    with pytest.raises(gradproof.UsageError, match=said):
        gradproof.check(old, X)


def test_nor_is_it_where_the_hooks_stand_around_the_check():
    with save_on_cpu():
        report = gradproof.check(Square, X)
    assert {f.slug for f in report.findings} <= {"unsupported-transform"}


def test_without_hooks_an_input_that_is_kept_by_hand_is_still_told():
    class Kept(Square):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.detach().view(-1).data)
            return x * x

    report = gradproof.check(Kept, X)
    assert "stale-state" in {f.slug for f in report.findings}


# --- sys.exit


class Exits(Square):
    @staticmethod
    def backward(ctx, g):
        sys.exit(3)


def test_an_exit_in_the_backward_is_a_finding():
    report = gradproof.check(Exits, X)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "backward-raises"
    assert "SystemExit: 3" in str(report)


def test_an_exit_in_the_forward_is_a_sentence():
    def leaves(x):
        sys.exit("no device")

    said = "leaves raised SystemExit at the given inputs: no device"
    with pytest.raises(gradproof.UsageError, match=said):
        gradproof.check(leaves, X)


def test_an_exit_in_a_pair_is_a_finding():
    def backward(g, x):
        sys.exit(1)

    report = gradproof.check(np.sin, X.numpy(), vjp=backward)
    assert report.findings[0].slug == "backward-raises"


def test_an_interrupt_goes_through():
    class Interrupted(Square):
        @staticmethod
        def backward(ctx, g):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gradproof.check(Interrupted, X)


# --- inference mode


@pytest.mark.parametrize("made", ["before", "inside"])
def test_inference_mode_around_a_check_makes_no_difference(made):
    x = X
    with torch.inference_mode():
        if made == "inside":
            x = X + 1
        assert gradproof.check(Square, x).verdict is Verdict.PASS
        assert gradproof.check(torch.nn.Linear(6, 2), X.float()).ok
        assert gradproof.jacobian(torch.sin, x).value.shape == (6, 6)
        assert torch.is_inference_mode_enabled()


# --- outputs that are not strided


@pytest.mark.parametrize(
    "op", [torch.neg, torch.relu, lambda s: s * 3], ids=["neg", "relu", "times"]
)
def test_a_sparse_output_is_asked_as_its_users_would(op):
    s = torch.diag(torch.tensor([1.0, 2.0, -3.0])).double().to_sparse()
    assert gradproof.check(op, s).verdict is Verdict.PASS


def test_sparse_gradients_are_right_in_every_way():
    module = torch.nn.Embedding(4, 3, sparse=True)
    report = gradproof.check(module, torch.tensor([0, 1, 1]))
    assert report.verdict is Verdict.PASS
    assert {f.slug for f in report.findings} <= {"unsupported-transform"}


def test_the_second_order_of_sparse_inputs_is_not_asked_and_listed():
    s = torch.eye(3, dtype=torch.float64).to_sparse()
    report = gradproof.check(lambda s: s.to_dense().sin(), s, orders=2)
    assert report.verdict is Verdict.PASS
    assert "second order of sparse inputs" in report.record.not_asked


# --- the Jacobians of a report


def test_jacobians_are_told_by_name():
    jacobians = gradproof.check(Square, X).jacobians
    assert repr(jacobians["out", "x"]) == "<gradproof.Jacobians 6 by 6: 0 of 36 wrong>"
    said = r"there is no Jacobian of \('out', 'y'\); there is \('out', 'x'\)"
    with pytest.raises(KeyError, match=said):
        jacobians["out", "y"]
    assert jacobians.get(("out", "y")) is None


def test_where_there_are_none_it_says_so():
    report = gradproof.check(torch.sin, torch.ones(300, 300), ways=False)
    with pytest.raises(KeyError, match="none was formed as a whole here"):
        report.jacobians["out", "x"]
