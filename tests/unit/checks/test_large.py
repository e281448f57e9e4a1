"""Large problems: refused where they do not fit, stopped cleanly, shown while they last."""

from __future__ import annotations

import gc
import io
import tracemalloc
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from locating_rules import opaque

import gradproof
from gradproof.proof import memory
from gradproof.reports import waiting
from gradproof.verdict import Verdict


def test_what_does_not_fit_is_refused_with_the_size_that_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 300_000_000)
    with pytest.raises(gradproof.UsageError) as caught:
        gradproof.check(opaque("sin"), (torch.ones(1_500_000),))
    assert str(caught.value) == (
        "Op has 1500000 entries in its inputs and 1500000 in its outputs, which takes "
        "about 0.4 GB to check, and 0.3 GB are free; up to about 2300000 entries in all "
        "fit, so check a smaller shape"
    )


def test_what_disagrees_and_does_not_fit_is_said_to_disagree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 300_000_000)
    x = torch.randn(5_000, 100, generator=torch.Generator().manual_seed(1))
    assert gradproof.check(opaque("softmax"), (x,), ways=False).ok
    with pytest.raises(gradproof.UsageError) as caught:
        gradproof.check(
            opaque("softmax", lambda grads: [g.relu() for g in grads]), (x,), ways=False
        )
    assert str(caught.value) == (
        "something disagrees, and what it is takes more memory: Op has 500000 entries "
        "in its inputs and 500000 in its outputs, which takes about 0.4 GB to check, "
        "and 0.3 GB are free; up to about 660000 entries in all fit, so check a smaller "
        "shape"
    )


def test_small_problems_are_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 0)
    x = torch.randn(40, dtype=torch.float64)
    assert gradproof.check(opaque("sin"), (x,)).ok


def test_free_memory_is_that_of_the_machine_and_of_the_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 9 kB\nMemAvailable:   2000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", told)
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    assert memory.free_bytes() == 2000 * 1024
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert memory.free_bytes() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_bytes() == 2000 * 1024
    told.unlink()
    assert memory.free_bytes() is None


@pytest.mark.parametrize("last", [1, 4, 9])
def test_an_interrupt_stops_it_and_leaves_the_users_state(last: int) -> None:
    calls = 0

    def forward(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        torch.rand(1)
        if calls == last:
            raise KeyboardInterrupt
        return x.sin()

    torch.manual_seed(5)
    state = torch.get_rng_state()
    x = torch.randn(20_000, generator=torch.Generator().manual_seed(1))
    kept = x.clone()
    with pytest.raises(KeyboardInterrupt):
        gradproof.check(forward, (x,))
    assert calls == last
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, kept)
    assert x.grad is None
    assert not x.requires_grad


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_once_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stderr = _Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    with waiting.waiting("Op") as tell:
        assert tell is not None
        tell("the gradient", 0.15)
    assert "Op: the gradient" in stderr.getvalue()


def test_no_progress_in_the_first_second(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = _Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    with waiting.waiting("Op") as tell:
        assert tell is not None
        tell("the gradient", 0.15)
    assert stderr.getvalue() == ""


def test_no_progress_where_stderr_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with waiting.waiting("Op") as tell:
        assert tell is None


def test_the_stages_are_told_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = _Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    told: list[tuple[str, float]] = []
    monkeypatch.setattr(
        waiting._Shown, "tell", lambda self, stage, share: told.append((stage, share))
    )
    gradproof.check(opaque("sin"), (torch.randn(9, dtype=torch.float64),))
    assert [stage for stage, _ in told] == [
        "form",
        "history and linearity",
        "the gradient",
        "other ways of asking",
        "what may be wrong",
    ]
    assert [share for _, share in told] == sorted(share for _, share in told)


def test_a_large_check_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", _Terminal())
    told: list[tuple[str, float]] = []
    monkeypatch.setattr(
        waiting._Shown, "tell", lambda self, stage, share: told.append((stage, share))
    )
    gradproof.check(opaque("sin"), (torch.randn(9000, dtype=torch.float64),))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert max(b - a for a, b in pairwise([*shares, 1.0])) < 0.35
    stages = [stage for stage, _ in told]
    assert stages.count("the gradient") > 4
    assert stages.count("other ways of asking") == 3


def _large_tensors() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum(
            t.numel() > 10_000 for t in gc.get_objects() if isinstance(t, torch.Tensor)
        )


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * ctx.saved_tensors[0].cos()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_nothing_large_is_left_behind(dtype: torch.dtype) -> None:
    """Not even until Python's collector comes: memory does not grow with repetition."""
    x = torch.randn(30_000).to(dtype)
    gradproof.check(Sine, (x,))
    gc.collect()
    gc.disable()
    try:
        before = _large_tensors()
        tracemalloc.start()
        taken = []
        for _ in range(3):
            assert gradproof.check(Sine, (x,)).verdict is Verdict.PASS
            taken.append(tracemalloc.get_traced_memory()[0])
        assert _large_tensors() == before
        assert taken[-1] - taken[0] < 8 * x.numel()  # bytes: of one vector
    finally:
        tracemalloc.stop()
        gc.enable()


def _checked(budget: float) -> Any:
    x = torch.randn((10, 12), generator=torch.Generator().manual_seed(2))
    return gradproof.check(opaque("softmax"), (x.double(),), budget=budget, ways=False)


def test_a_budget_degrades_the_limits_and_says_so() -> None:
    full, short = _checked(600.0), _checked(0.0)
    assert full.verdict is Verdict.PASS
    assert short.verdict is Verdict.PASS
    assert "Jacobian entries" in full.record.compared
    assert "direction-cotangent pairs" in short.record.compared
    assert short.detection_limit["one entry"] > full.detection_limit["one entry"]
    (note,) = [n for n in short.record.notes if "budget=" in n]
    assert note.startswith("every entry of the Jacobian would take about ")
    assert note.endswith(
        " s, and budget= allows 0 s; directions were compared, so the limits are coarser"
    )
    assert not any("budget=" in n for n in full.record.notes)
