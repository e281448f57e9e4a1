"""Record → figure: the error against the step, the rule against the oracle, the slope.

One drawing code for ``report.plot()`` and for the HTML page. Shape of a mark says what
its colour says, so that no panel needs colour to be read.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from gradproof.errors import UsageError
from gradproof.reports import words
from gradproof.reports.details import curves, diagonal
from gradproof.verdict import Code, Curve, Evidence, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RIGHT, _WRONG, _ORACLE = "#33658a", "#c1121f", "#555555"
# More curves than this on one panel cannot be told apart.
_MOST_CURVES = 6
# Entries drawn, the wrong ones first; a million marks make an unreadable page.
_MOST_MARKS = 2000
_PANEL = (5.2, 3.8)  # inches


def draw(record: Record) -> Figure:
    """All panels for which the record has data, side by side.

    Raises:
        UsageError: matplotlib cannot be imported (extra ``report``).
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            words.NEEDS_REPORT.format(what=words.A_FIGURE, missing="matplotlib")
        ) from error
    panels = _panels(record)
    with rc_context({"font.size": 9, "axes.spines.top": False,
                     "axes.spines.right": False}):  # fmt: skip
        size = (_PANEL[0] * max(len(panels), 1), _PANEL[1])
        figure = Figure(figsize=size, layout="constrained")
        if not panels:
            figure.text(0.5, 0.5, words.NOTHING_TO_DRAW, ha="center", va="center")
        for i, panel in enumerate(panels):
            panel(figure.add_subplot(1, len(panels), i + 1))
        figure.suptitle(f"{record.verdict} {record.name}")
    return figure


def svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element, the same each time for the same record."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.hashsalt": "gradproof", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :].strip()


def _panels(record: Record) -> list[Any]:
    evidence = record.evidence
    if evidence is None:
        return []
    out: list[Any] = []
    kept = curves(evidence)
    if kept:
        out.append(lambda axes: _curves(axes, kept[:_MOST_CURVES]))
    pairs = _pairs(evidence)
    if len(pairs):
        out.append(lambda axes: _agreement(axes, pairs))
    slope = _slope(evidence)
    if slope is not None:
        out.append(lambda axes: _slopes(axes, *slope))
    return out


def _curves(axes: Axes, kept: tuple[Curve, ...]) -> None:
    for curve in kept:
        shown = np.isfinite(curve.x) & np.isfinite(curve.y) & (curve.y > 0)
        (line,) = axes.plot(curve.x[shown], curve.y[shown], ".-", label=curve.name)
        if shown.any():
            best = np.argmin(curve.y[shown])
            at = curve.x[shown][best], curve.y[shown][best]
            axes.plot(*at, "o", fillstyle="none", markersize=9, color=line.get_color())
    if any((curve.y > 0).any() for curve in kept):
        axes.set_yscale("log")
    if all((curve.x > 0).all() for curve in kept):
        axes.set_xscale("log")
    axes.set_xlabel(kept[0].x_name)
    axes.set_ylabel(", ".join(dict.fromkeys(curve.y_name for curve in kept)))
    axes.legend(frameon=False)


def _pairs(evidence: Evidence) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows (expected, got, bar, wrong) of every entry that was measured."""
    rows = [np.empty((0, 4))]
    block = evidence.block
    if block is not None:
        ok = block.code == Code.OK
        columns = (block.value, block.implied, block.bar, block.wrong)
        rows.append(np.stack([c[ok] for c in columns], axis=1))
    for probe in evidence.probes:
        e = probe.expected
        measured = e.code == Code.OK
        vectors = (e.value, probe.got, e.bar, probe.wrong)
        rows.append(np.stack([v[measured] for v in vectors], axis=1))
    table = np.concatenate(rows)
    table = table[np.isfinite(table[:, 0]) & np.isfinite(table[:, 1])]
    return table[np.argsort(-table[:, 3], kind="stable")][:_MOST_MARKS]


def _agreement(axes: Axes, table: np.ndarray[Any, Any]) -> None:
    expected, got, bar, wrong = table.T
    low = float(min(expected.min(), got.min()))
    high = float(max(expected.max(), got.max()))
    axes.plot([low, high], [low, high], "-", color=_ORACLE, lw=0.8, zorder=0)
    right = wrong == 0
    bars = np.where(np.isfinite(bar), bar, 0.0)
    for where, mark, colour, label in (
        (right, "o", _RIGHT, words.AGREES),
        (~right, "x", _WRONG, words.WRONG),
    ):
        if where.any():
            axes.errorbar(
                expected[where], got[where], xerr=bars[where], fmt=mark, ms=4,
                color=colour, elinewidth=0.8, label=f"{label} ({int(where.sum())})",
            )  # fmt: skip
    axes.set_xlabel(words.EXPECTED_AXIS)
    axes.set_ylabel(words.GOT_AXIS)
    axes.legend(frameon=False)


_Slope = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


def _slope(evidence: Evidence) -> _Slope | None:
    """(x, derivative, rule) of an elementwise operation at two points or more."""
    block = evidence.block
    if block is None or not diagonal(evidence, block):
        return None
    derivative, rule = np.diagonal(block.value), np.diagonal(block.implied)
    ok = np.isfinite(derivative) & np.isfinite(rule) & np.isfinite(evidence.point)
    if len(np.unique(evidence.point[ok])) < 2:
        return None
    order = np.argsort(evidence.point[ok])
    return evidence.point[ok][order], derivative[ok][order], rule[ok][order]


def _slopes(
    axes: Axes,
    x: np.ndarray[Any, Any],
    derivative: np.ndarray[Any, Any],
    rule: np.ndarray[Any, Any],
) -> None:
    axes.plot(x, derivative, "-", color=_ORACLE, label=words.EXPECTED_AXIS)
    axes.plot(x, rule, "x", color=_RIGHT, label=words.GOT_AXIS)
    axes.set_xlabel("x")
    axes.set_ylabel(words.HEADS["derivative"])
    axes.legend(frameon=False)
