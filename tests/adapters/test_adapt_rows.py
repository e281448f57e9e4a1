"""Rows of the Jacobian in one go are those that are asked one by one, or none."""

import numpy as np
import pytest
import torch

import gradproof
from gradproof import Verdict, adapters


class Mixed(torch.autograd.Function):
    """Two outputs of two inputs, one of them complex."""

    @staticmethod
    def forward(ctx, x, z):
        ctx.save_for_backward(x, z)
        return x * x, z * x.sum()

    @staticmethod
    def backward(ctx, g, h):
        x, z = ctx.saved_tensors
        return 2 * g * x + (h * z.conj()).real.sum(), h * x.sum()


class Looking(torch.autograd.Function):
    """A backward that looks at its numbers."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if bool((g == 0).all()):
            return g
        return g * x.exp()


def otherwise_in_a_batch(right: bool) -> type:
    """A backward that is nonsense where it is batched, and ``right`` or not elsewhere."""

    class Batched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            out = g * x.exp()
            if torch._C._functorch.is_batchedtensor(g):
                return out * torch.linspace(1.0, 3.0, x.numel(), dtype=x.dtype)
            return out if right else out * 1.01

    return Batched


def test_they_are_those_of_single_calls():
    x = torch.randn(3, 2, dtype=torch.float64)
    z = torch.randn(2, dtype=torch.complex128)
    rule = adapters.adapt(Mixed, (x, z), {})
    rows = np.array([0, 4, 6, 7, 9])
    point = rule.primal.point
    one_by_one = [
        rule.vjp(point, np.eye(rule.primal.codomain.size)[i]).value for i in rows
    ]
    assert np.allclose(rule.rows(point, rows), one_by_one, rtol=1e-14)


def test_a_backward_that_looks_at_its_numbers_is_asked_singly():
    x = torch.randn(10, dtype=torch.float64)
    rule = adapters.adapt(Looking, (x,), {})
    assert rule.rows(rule.primal.point, np.arange(10)) is None
    assert gradproof.check(Looking, x, ways=False).verdict is Verdict.PASS


@pytest.mark.parametrize("right", [True, False])
def test_what_a_batch_answers_excuses_nothing_and_accuses_nobody(right):
    x = torch.randn(10, dtype=torch.float64)
    verdict = gradproof.check(otherwise_in_a_batch(right), x, ways=False).verdict
    assert verdict is (Verdict.PASS if right else Verdict.FAIL)
