"""Modules that keep their weights twice (nn.RNN and its kin) answer alike each time."""

from __future__ import annotations

import pytest
import torch

import gradproof
from gradproof import Verdict


@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM])
def test_recurrent_modules_pass(kind):
    torch.manual_seed(0)
    module = kind(2, 3, dtype=torch.float64)
    before = [p.detach().clone() for p in module.parameters()]
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 2, 2)
    report = gradproof.check(module, (x,))
    assert report.verdict is Verdict.PASS, str(report)
    for p, was in zip(module.parameters(), before, strict=True):
        assert p.grad is None
        assert torch.equal(p, was)
    again = module(x)[0]
    again.sum().backward()
    assert all(p.grad is not None for p in module.parameters())
