"""What ``check`` returns: one record, with its renderings."""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gradproof.reports import terminal
from gradproof.verdict import Block, Finding, Record, Verdict


class Report:
    """One record, with its renderings. ``print(report)`` is the terminal report."""

    def __init__(self, record: Record, *, leaf_inputs: Any = None) -> None:
        """Wrap ``record``; ``leaf_inputs`` are the inputs it was made of, for saving."""
        self.record = record
        self.inputs = leaf_inputs

    @property
    def verdict(self) -> Verdict:
        """PASS, FAIL or UNDECIDED."""
        return self.record.verdict

    @property
    def ok(self) -> bool:
        """Whether the verdict is PASS."""
        return self.record.verdict is Verdict.PASS

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found, the leading one first."""
        return self.record.findings

    @property
    def detection_limit(self) -> dict[str, float]:
        """The relative error that would have been seen, by structure of error."""
        return {limit.structure: float(limit.value) for limit in self.record.limits}

    @property
    def suggestion(self) -> str:
        """The right backward as code (``check(..., suggest=True)``); "" where none."""
        return self.record.suggestion

    @property
    def jacobians(self) -> Blocks:
        """Implied and measured Jacobians by (output, input), where they were formed.

        Shape of each array: (entries of the output, entries of the input).
        """
        evidence = self.record.evidence
        if evidence is None or evidence.block is None or not evidence.block.whole:
            return Blocks()
        return Blocks(
            {
                (out.path, leaf.path): Jacobians(evidence.block, out.slice, leaf.slice)
                for out in evidence.codomain
                for leaf in evidence.domain
            }
        )

    def __str__(self) -> str:
        """The terminal report, without colour."""
        return terminal.render(self.record)

    def __repr__(self) -> str:
        """One line: what, and the verdict."""
        return f"<gradproof.Report {self.record.name}: {self.record.verdict}>"

    def render(
        self, *, verbose: bool = False, colour: bool = False, ascii: bool = False
    ) -> str:
        """The terminal report, with more of it, in colour, or in ASCII."""
        return terminal.render(self.record, verbose=verbose, colour=colour, ascii=ascii)

    def _repr_html_(self) -> str:
        html = importlib.import_module("gradproof.reports.html")
        return str(html.fragment(self.record))

    def to_json(self, path: str | Path | None = None) -> str:
        """The whole record as JSON; written to ``path`` where one is given."""
        json = importlib.import_module("gradproof.reports.json")
        text = str(json.to_json(self.record))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained page (needs the ``report`` extra)."""
        html = importlib.import_module("gradproof.reports.html")
        text = str(html.render(self.record))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def plot(self) -> Any:
        """The curves as a matplotlib figure (needs the ``report`` extra)."""
        figures = importlib.import_module("gradproof.reports.figures")
        return figures.draw(self.record)


class NoBlock(KeyError):
    """There is no Jacobian of that name; says which there are."""

    def __str__(self) -> str:
        """The sentence, without the quotes that a KeyError puts around it."""
        return str(self.args[0])


class Blocks(dict[tuple[str, str], "Jacobians"]):
    """Jacobians by (output, input), as reports name them."""

    def __missing__(self, key: Any) -> Jacobians:
        """Tell the names that there are."""
        if not self:
            raise NoBlock(
                f"there is no Jacobian of {key!r}: none was formed as a whole here; ask "
                "at a smaller size, or with a larger budget="
            )
        near = get_close_matches(str(key), [str(k) for k in self], n=3, cutoff=0.0)
        raise NoBlock(f"there is no Jacobian of {key!r}; there is {', '.join(near)}")


class Jacobians:
    """One output by one input: ``implied`` by the rule, ``numerical`` ± ``bar``."""

    def __init__(self, block: Block, rows: slice, cols: slice) -> None:
        """Views on one block of the whole Jacobian."""
        self.implied = block.implied[rows, cols]
        self.numerical = block.value[rows, cols]
        self.bar = block.bar[rows, cols]
        self.bound = block.bound[rows, cols]
        self.wrong = block.wrong[rows, cols]

    def __repr__(self) -> str:
        """One line: the shape, and how many entries are wrong."""
        m, n = self.implied.shape
        return f"<gradproof.Jacobians {m} by {n}: {self.wrong.sum()} of {m * n} wrong>"
