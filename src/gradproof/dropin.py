"""gradcheck and gradgradcheck: PyTorch's doors, with our judgement behind them.

Loaded only when one of them is asked for, since it needs PyTorch.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from gradproof.adapters import torch_gradcheck
from gradproof.adapters.torch_gradcheck import GradcheckError
from gradproof.api import Report, check
from gradproof.errors import GradproofError
from gradproof.verdict import Verdict

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class _Court:
    """Asks ``check`` once, and keeps the report to explain a failure with."""

    def __init__(self) -> None:
        self.report: Report | None = None

    def judge(self, func: Callable[..., Any], inputs: tuple[Any, ...]) -> bool | None:
        """True where the gradient is proved, False where refuted, None in between.

        A rule that is wrong only in its side effects is for ``check`` to accuse.
        """
        try:
            self.report = check(func, inputs, ways=False)
        except GradproofError:
            return None
        if self.report.verdict is Verdict.FAIL:
            return False if _first_order(self.report) else None
        return True if self.report.verdict is Verdict.PASS else None

    def explain(self) -> str:
        """The report of a refuted gradient, or nothing."""
        if self.report is None or self.report.verdict is not Verdict.FAIL:
            return ""
        return str(self.report)


def _first_order(report: Report) -> bool:
    """Whether the numbers of the plain gradient are at fault."""
    evidence = report.record.evidence
    if evidence is None:
        return False
    linearity = evidence.linearity
    return evidence.wrong or (linearity is not None and bool(linearity.broken()))


@functools.wraps(torch_gradcheck.gradcheck)
def gradcheck(func: Callable[..., Any], inputs: Any, **keywords: Any) -> bool:
    """See ``gradproof.adapters.torch_gradcheck.gradcheck``; ours decides at its defaults."""
    inspect.signature(torch_gradcheck.gradcheck).bind(func, inputs, **keywords)
    court = _Court()
    return torch_gradcheck.run(
        func,
        inputs,
        options=torch_gradcheck.Options(**keywords),
        judge=court.judge,
        explain=court.explain,
    )


@functools.wraps(torch_gradcheck.gradgradcheck)
def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, **keywords: Any
) -> bool:
    """See ``gradproof.adapters.torch_gradcheck.gradgradcheck``."""
    wrapped = inspect.signature(torch_gradcheck.gradgradcheck)
    wrapped.bind(func, inputs, grad_outputs, **keywords)
    court = _Court()
    return torch_gradcheck.run_second(
        func,
        inputs,
        grad_outputs,
        options=torch_gradcheck.SecondOptions(**keywords),
        judge=court.judge,
        explain=court.explain,
    )
