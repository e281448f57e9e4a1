"""What a verbose report adds: the numbers at the point, what was asked, what with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gradproof.reports import words
from gradproof.reports.blocks import plus_minus
from gradproof.reports.numbers import digits, duration, plain, plural, small
from gradproof.reports.page import Page, cells
from gradproof.space import Mask, Vector
from gradproof.verdict import Block, Code, Curve, Evidence, Probe, Record, Verdict

Order: TypeAlias = np.ndarray[tuple[int], np.dtype[np.intp]]

# A table longer than this is a dump.
MOST_ROWS = 12
_LABEL = len(words.REPRODUCE) + 1


def write(page: Page, record: Record) -> None:
    """All sections for which the record has data, each after a blank line."""
    evidence = record.evidence
    if evidence is not None:
        table(page, evidence)
        _asked(page, evidence)
    page.put()
    if record.limits and record.verdict is Verdict.FAIL:  # the others said it above
        limits = (f"{small(a.value)} ({a.structure})" for a in record.limits)
        _labelled(page, words.LIMITS, ", ".join(limits))
    if evidence is not None:
        for curve in curves(evidence):
            _labelled(page, words.CURVE, _least(curve))
    if any(record.evaluations):
        forwards, vjps = record.evaluations
        text = words.EVALUATIONS.format(
            forwards=plural(forwards, "forward"),
            vjps=plural(vjps, "vjp"),
            seconds=duration(record.seconds),
        )
        _labelled(page, words.EVALUATED, text)
    made = [f"{name} {value}" for name, value in record.provenance]
    _labelled(page, words.PROVENANCE, ", ".join([*made, f"seed {record.seed}"]))


def _labelled(page: Page, label: str, text: str) -> None:
    page.wrap(label.ljust(_LABEL), text)


def curves(evidence: Evidence) -> tuple[Curve, ...]:
    """Every curve that the oracles kept, without empty ones."""
    kept = (*evidence.curves, *(probe.expected.curve for probe in evidence.probes))
    return tuple(c for c in kept if c is not None and len(c.x))


def _least(curve: Curve) -> str:
    with np.errstate(invalid="ignore"):
        best = int(np.nanargmin(curve.y)) if not np.isnan(curve.y).all() else 0
    return words.LEAST.format(
        name=curve.name,
        y=small(float(curve.y[best])),
        x_name=curve.x_name,
        x=small(float(curve.x[best])),
        points=plural(len(curve.x), "point"),
        low=small(float(np.min(curve.x))),
        high=small(float(np.max(curve.x))),
    )


def _asked(page: Page, evidence: Evidence) -> None:
    if not (evidence.asked or evidence.elsewhere):
        return
    page.put()
    if evidence.asked:
        names = ", ".join(asked.way for asked in evidence.asked)
        raised = [a.way for a in evidence.asked if a.failure is not None]
        odd = [a.way for a in evidence.asked if not a.agreed and a.failure is None]
        said = [words.DIFFERED.format(ways=", ".join(odd))] if odd else []
        said += [words.RAISED.format(ways=", ".join(raised))] if raised else []
        _labelled(page, words.WAYS, "; ".join([names, *(said or [words.ALL_AGREED])]))
    if evidence.elsewhere:
        settings = ", ".join(
            f"{e.setting} {e.verdict}" + (f" ({e.note})" if e.note else "")
            for e in evidence.elsewhere
        )
        _labelled(page, words.ELSEWHERE, settings)


@dataclass(frozen=True)
class Row:
    """One line of the table at the point; all already in words."""

    place: str
    x: str = ""
    value: str = ""
    cotangent: str = ""
    derivative: str = ""
    rule: str = ""
    note: str = ""


def table(page: Page, evidence: Evidence) -> None:
    """Point, value and derivative ± bar, beside what the rule answers."""
    rows, total = rows_at(evidence)
    if not rows:
        return
    page.put()
    page.put(words.AT_THE_POINT)
    columns = [name for name in words.HEADS if any(getattr(row, name) for row in rows)]
    grid = [[words.HEADS[name] for name in columns]]
    grid += [[getattr(row, name) for name in columns] for row in rows]
    grid = [[page.says(cell) for cell in line] for line in grid]
    widths = [max(cells(line[i]) for line in grid) for i in range(len(columns))]
    for line in grid:
        padded = (
            cell + " " * (w - cells(cell)) for cell, w in zip(line, widths, strict=True)
        )
        page.put("  " + "  ".join(padded))
    if total > len(rows):
        more = plural(total - len(rows), "entry", "entries")
        page.put("  " + words.FURTHER_ROWS.format(more=more))


def rows_at(evidence: Evidence) -> tuple[list[Row], int]:
    """The rows that are shown, and how many there are in all."""
    block = evidence.block
    if block is not None and block.value.size:
        pairs, total = _pairs(evidence, block)
        return [_entry(evidence, block, i, j) for i, j in pairs], total
    if evidence.probes:
        probe = evidence.probes[0]
        at = np.flatnonzero(probe.expected.code != Code.UNMEASURED)
        told = telling(probe.wrong[at], probe.expected.value[at], probe.got[at])
        return [_probed(evidence, probe, int(i)) for i in at[told]], len(at)
    return [], 0


def _pairs(evidence: Evidence, block: Block) -> tuple[list[tuple[int, int]], int]:
    """The entries that get a row, and how many could have one.

    Of an elementwise operation the diagonal, else all.
    """
    n, m = block.value.shape
    i, j = (a.reshape(-1) for a in np.indices((n, m)))
    if diagonal(evidence, block):
        i = j = np.arange(n)
    told = telling(block.wrong[i, j], block.value[i, j], block.implied[i, j])
    return list(zip(i[told].tolist(), j[told].tolist(), strict=True)), len(i)


def telling(wrong: Mask, expected: Vector, got: Vector) -> Order:
    """Which entries get a row: all in their order where they fit.

    Else the wrong ones first, the furthest off leading, then those without an answer, then
    the largest: what is zero by structure tells nothing and comes last.
    """
    if len(wrong) <= MOST_ROWS:
        return np.arange(len(wrong))
    with np.errstate(invalid="ignore"):
        off = np.where(wrong, np.abs(got - expected), 0.0)
    size = np.nan_to_num(np.abs(expected), nan=np.inf, posinf=np.inf)
    off = np.nan_to_num(off, nan=np.inf, posinf=np.inf)
    return np.lexsort((-size, -off, ~wrong))[:MOST_ROWS]


def diagonal(evidence: Evidence, block: Block) -> bool:
    """Whether only the diagonal of the measured Jacobian can be other than zero."""
    if not block.whole or evidence.domain.size != evidence.codomain.size:
        return False
    if block.value.shape != (evidence.codomain.size, evidence.domain.size):
        return False
    off = ~np.eye(len(block.value), dtype=bool)
    with np.errstate(invalid="ignore"):
        known = np.abs(block.value) <= block.bound
    return bool((known[off] & (block.implied[off] == 0)).all())


def _entry(evidence: Evidence, block: Block, i: int, j: int) -> Row:
    out, into = int(block.rows[i]), int(block.cols[j])
    bar = float(block.bar[i, j])
    value, implied = float(block.value[i, j]), float(block.implied[i, j])
    place = str(evidence.domain.place(into))
    if evidence.codomain.size > 1 and not diagonal(evidence, block):
        place = f"∂{evidence.codomain.place(out)}/∂{place}"
    return Row(
        place=place,
        x=plain(float(evidence.point[into])),
        value=plain(float(evidence.value[out])),
        derivative=_with_bar(value, bar),
        rule=digits(implied, bar),
        note=_note(int(block.code[i, j]), wrong=bool(block.wrong[i, j])),
    )


def _probed(evidence: Evidence, probe: Probe, i: int) -> Row:
    bar = float(probe.expected.bar[i])
    same = evidence.domain.size == evidence.codomain.size
    single = evidence.codomain.size == 1
    return Row(
        place=f"grad of {evidence.domain.place(i)}",
        x=plain(float(probe.point[i])),
        value=plain(float(evidence.value[0])) if single else "",
        cotangent=plain(float(probe.cotangent[0 if single else i]))
        if same or single
        else "",
        derivative=_with_bar(float(probe.expected.value[i]), bar),
        rule=digits(float(probe.got[i]), bar),
        note=_note(int(probe.expected.code[i]), wrong=bool(probe.wrong[i])),
    )


def _with_bar(value: float, bar: float) -> str:
    return digits(value, bar) + plus_minus(bar)


def _note(code: int, *, wrong: bool) -> str:
    if wrong:
        return words.WRONG
    return "" if code == Code.OK else words.CODES[Code(code).name]
