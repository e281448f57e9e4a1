"""What lies in the last digits is a truncation and no mistake."""

from __future__ import annotations

import math

import pytest
import torch

import gradproof
from gradproof import Verdict


def circumference(pi: float):
    class Circle(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return math.pi * x**2

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * pi * grad_output * x

    return Circle


X = torch.tensor([0.3, -1.2, 2.5], dtype=torch.float64)


def test_a_constant_in_single_precision_is_a_warning():
    report = gradproof.check(circumference(3.1415927410125732), (X,))
    assert report.verdict is Verdict.PASS, str(report)
    assert {f.slug for f in report.findings} & {"inexact", "hidden-low-precision"}
    text = str(report) + str(report.findings)
    assert "last digits" in text or "lower precision" in text


@pytest.mark.parametrize("pi", [3.14159, 3.1416, 3.14])
def test_a_short_constant_is_an_error(pi):
    report = gradproof.check(circumference(pi), (X,))
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "wrong-factor"


class Transport(torch.autograd.Function):
    """The entropic transport cost by Sinkhorn's iterations, stopped at a tolerance."""

    epsilon = 0.3

    @classmethod
    def potentials(cls, cost, tolerance):
        rows, columns = cost.shape
        u, v = cost.new_zeros(rows), cost.new_zeros(columns)
        for _ in range(500):
            new = -cls.epsilon * (
                torch.logsumexp((v - cost) / cls.epsilon, 1) + math.log(rows)
            )
            v = -cls.epsilon * (
                torch.logsumexp((new[:, None] - cost) / cls.epsilon, 0)
                + math.log(columns)
            )
            moved = float((new - u).abs().max())
            u = new
            if moved < tolerance:
                break
        return u, v

    @staticmethod
    def forward(ctx, cost, tolerance):
        u, v = Transport.potentials(cost, tolerance)
        plan = ((u[:, None] + v - cost) / Transport.epsilon).exp()
        ctx.save_for_backward(plan)
        return u.mean() + v.mean()

    @staticmethod
    def backward(ctx, grad_output):
        (plan,) = ctx.saved_tensors
        return grad_output * plan, None


class HalfTransport(Transport):
    @staticmethod
    def backward(ctx, grad_output):
        (plan,) = ctx.saved_tensors
        return 1.001 * grad_output * plan, None


COST = torch.tensor([[0.1, 0.9, 0.4], [0.7, 0.2, 0.8]], dtype=torch.float64)


@pytest.mark.parametrize("tolerance", [1e-5, 1e-8])
def test_the_envelope_of_a_minimum_that_stops_early(tolerance):
    right = gradproof.check(Transport, (COST, tolerance))
    assert right.verdict is not Verdict.FAIL, str(right)
    wrong = gradproof.check(HalfTransport, (COST, tolerance))
    assert wrong.verdict is Verdict.FAIL
