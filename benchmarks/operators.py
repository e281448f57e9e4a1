"""False alarms, misses and the undecided over PyTorch's own operators.

    python benchmarks/operators.py [--sample N] [--seed S] [--samples 2] [--jobs 2]
    python benchmarks/operators.py --dtype float64 --shard 0/2 --save rows-0.jsonl
    python benchmarks/operators.py --rows rows-0.jsonl rows-1.jsonl

Every differentiable operator of ``torch.testing``'s database on the CPU becomes a rule
(operators_rules.py) in float64, float32, bfloat16 and float16, once as it is and once
"opaque": refusing every other dtype, as a compiled kernel does. One run at one setting
counts the right rules that are accused, those left undecided, and the planted errors
that are seen at 1.2 times the printed limit and at a tenth of it: told by an error or a
warning that the right rule does not get, in brackets those that FAIL. Next to it
``torch.autograd.gradcheck`` at its defaults, slow and fast.

What is taken: one sample of each operator and dtype, or ``--samples``, of its first 24:
one with a gradient other than 0 and at least 6 numbers that vary where there is such,
drawn by ``--seed``. Of each tensor a corner of at most 16 numbers varies, and as many
results are looked at; the operator itself sees all. Samples with more than 10000
elements are left out, and those without any are not counted. Each operator and dtype
has one planted error, in one of the two columns; every second is planted at a tenth of
the limit too.

``--sample N`` takes N operators, float64 and float32 only. A run may be made in pieces:
``--save`` writes the rows of some dtypes or of one shard of the operators, and ``--rows``
reports on saved ones; ``--right`` leaves out the planted errors.

Exit code 1 when a right rule was accused that is not among ``KNOWN``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from operators_function import rule
from operators_rules import (
    Plant,
    Subject,
    cheap_seeds,
    operators,
    plain,
    subjects,
)
from torch import Tensor

import gradproof
from gradproof.errors import GradproofError
from gradproof.verdict import Block, Code

# PyTorch's gradient is not the derivative of its forward there, and why.
KNOWN = {
    "as_strided_scatter": "its own test expects gradcheck to fail; so does it here",
    "nn.functional.max_unpool1d": "indices that repeat: the last value written wins",
    "nn.functional.max_unpool2d": "indices that repeat: the last value written wins",
    "nn.functional.max_unpool3d": "indices that repeat: the last value written wins",
    "nn.functional.hardsigmoid": "its backward has 1/6 in float32: 3e-8 off in float64",
    "logcumsumexp": "exp(log g + x - y) in its own dtype: at |x| = 1e4 float32 keeps 3 "
    "digits of the gradient, float16 and bfloat16 none",
    "round.decimals_3 bfloat16": "the numbers of this dtype at |x| > 1 are further apart "
    "than 1e-3: the identity, and the gradient given is 0",
    "round.decimals_3 float16": "the same, at |x| > 4",
    "normal": "mean + std·z with z drawn; the gradient given is 0",
    "normal.number_mean": "mean + std·z with z drawn; the gradient given is 0",
}
STRUCTURES = ("whole", "one input", "one entry", "one slice", "sign")
LIMIT_OF = {"whole": "uniform", "sign": "uniform"}  # of the others: "one entry"
MODES = {"gradcheck": "slow", "fast": "fast mode"}
CHECKED = 600  # entries of a Jacobian above which gradcheck is not asked


@dataclass(frozen=True)
class Row:
    """What came of one operator in one dtype and column."""

    name: str
    dtype: str
    column: str
    verdict: str
    reason: str = ""
    limit: float = float("nan")
    found: tuple[tuple[str, str, str], ...] = ()  # structure, level, what it was told
    gradcheck: str = ""
    fast: str = ""  # the same with fast_mode
    seconds: float = 0.0


def whole(delta: float) -> Plant:
    """Every gradient × (1 + δ)."""
    return lambda grads, _: [None if g is None else g * (1 + delta) for g in grads]


def of_input(delta: float, k: int) -> Plant:
    """The gradient of one input × (1 + δ)."""

    def plant(grads: list[Tensor | None], _: list[Tensor]) -> list[Tensor | None]:
        out = list(grads)
        g = out[k]
        out[k] = None if g is None else g * (1 + delta)
        return out

    return plant


def of_slice(delta: float, k: int, row: int) -> Plant:
    """One row of one gradient × (1 + δ)."""

    def plant(grads: list[Tensor | None], _: list[Tensor]) -> list[Tensor | None]:
        out = list(grads)
        g = out[k]
        if g is not None:
            g = g.clone()
            g[row] = g[row] * (1 + delta)
            out[k] = g
        return out

    return plant


def of_entry(delta: float, k: int, index: int, slope: float, row: int) -> Plant:
    """One entry of the Jacobian × (1 + δ); ``row`` counts along all cotangents."""

    def plant(
        grads: list[Tensor | None], cotangents: list[Tensor]
    ) -> list[Tensor | None]:
        out = list(grads)
        g = out[k]
        flat = torch.cat([c.reshape(-1) for c in cotangents])
        if g is not None:
            g = g.clone(memory_format=torch.contiguous_format)
            g.view(-1)[index] += delta * slope * flat[row].to(g.dtype)
            out[k] = g
        return out

    return plant


def _places(subject: Subject, block: Block) -> tuple[int, int] | None:
    """The entry whose limit is the weakest of those that the report speaks of."""
    size = np.abs(block.value)
    known = (block.code == Code.OK) & np.isfinite(block.value)
    top = size[known].max(initial=0.0)
    seen = known & (size >= 1e-3 * top)
    if top == 0 or not seen.any():
        return None
    with np.errstate(all="ignore"):
        gap = np.abs(block.implied - block.value)
        ratio = np.where(seen, (block.bound + block.own + gap) / size, -1.0)
    i, j = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    return int(i), int(j)


def _plant(
    subject: Subject, structure: str, delta: float, block: Block
) -> Plant | None:
    """A plant where the report is weakest; None where the structure is not there."""
    if structure == "whole":
        return whole(delta)
    if structure == "sign":
        return whole(-2.0)
    place = _places(subject, block)
    if place is None or any(t.is_complex() for t in subject.inputs):
        return None
    row, column = place
    start = 0
    for k, i in enumerate(subject.varied):
        t = subject.inputs[i]
        if column < start + t.numel():
            index = column - start
            if structure == "one input":
                return of_input(delta, k)
            if structure == "one entry":
                slope = float(block.implied[row, column])
                return of_entry(delta, k, index, slope, row)
            if t.ndim < 1:
                return None
            return of_slice(delta, k, index // max(1, t[0].numel()))
        start += t.numel()
    return None


def check(fn: Any, subject: Subject, seed: int) -> gradproof.Report:
    """The one setting of this benchmark."""
    return gradproof.check(fn, subject.inputs, ways=False, seed=seed)


def examine(
    subject: Subject, column: str, structure: str, seed: int, *, beside: bool,
    twice: bool,
) -> Row:  # fmt: skip
    """The right rule, and one planted error, at two sizes where ``twice``."""
    started = time.process_time()
    opaque = column == "opaque"
    name = (subject.name, subject.dtype, column)
    try:
        report = check(rule(subject, opaque=opaque), subject, seed)
    except GradproofError as error:
        return Row(*name, "REFUSED", f"{type(error).__name__}: {error}"[:120])
    record = report.record
    reason = ""
    if record.undecided:
        reason = record.undecided[0].reason
    if record.verdict is gradproof.Verdict.FAIL:
        reason = record.findings[0].headline
    found = []
    limits = report.detection_limit
    limit = limits.get(LIMIT_OF.get(structure, "one entry"), float("nan"))
    block = record.evidence.block if record.evidence is not None else None
    if structure and report.ok and block is not None and block.whole and limit < 0.5:
        for level, factor in (("1.2 x", 1.2), ("0.1 x", 0.1)):
            if factor < 1 and (structure == "sign" or not twice):
                continue
            plant = _plant(subject, structure, factor * limit, block)
            if plant is not None:
                bad = check(rule(subject, opaque=opaque, plant=plant), subject, seed)
                found.append((structure, level, _told(bad, report)))
    slow, fast = (gradcheck(subject, f) if beside else "" for f in (False, True))
    return Row(
        *name, str(report.verdict), reason, limits.get("uniform", float("nan")),
        tuple(found), slow, fast, time.process_time() - started,
    )  # fmt: skip


def _told(bad: gradproof.Report, right: gradproof.Report) -> str:
    """What came of a planted error: FAIL, a warning that the right rule lacks, or ""."""
    if bad.verdict is gradproof.Verdict.FAIL:
        return "FAIL"
    known = {f.slug for f in right.findings}
    new = {f.slug for f in bad.findings if f.severity != "note"} - known
    return min(new, default="")


def gradcheck(subject: Subject, fast: bool) -> str:  # noqa: FBT001
    """What PyTorch's own check says of the right gradient at its defaults."""
    if sum(subject.inputs[i].numel() for i in subject.varied) > CHECKED:
        return ""
    try:
        with torch.random.fork_rng():
            right = torch.autograd.gradcheck(
                plain(subject), subject.inputs, raise_exception=False,
                nondet_tol=1e-12, fast_mode=fast,
            )  # fmt: skip
    except Exception as error:  # it raises errors of many kinds
        return f"raised {type(error).__name__}"
    return "passed" if right else "accused"


def task(job: tuple[str, tuple[str, ...], int, int, bool, bool]) -> list[Row]:
    """All of one operator."""
    with cheap_seeds():
        *what, beside, planted = job
        return _task(*what, beside=beside, planted=planted)


def _task(
    name: str, dtypes: tuple[str, ...], samples: int, seed: int, *, beside: bool,
    planted: bool,
) -> list[Row]:  # fmt: skip
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = []
    for dtype in dtypes:
        op = next((o for o in operators(dtype) if o.full_name == name), None)
        if op is None:
            continue
        try:
            taken = subjects(op, dtype, samples, seed)
        except RuntimeError as error:  # a sample that does not survive a copy
            rows.append(Row(name, dtype, "", "NO SAMPLE", str(error)[:80]))
            continue
        for k, subject in enumerate(taken):
            for c, column in enumerate(("lifted", "opaque")):
                draw = random.Random(f"{name}{dtype}{seed}")
                turn, here, twice = (draw.randrange(i) for i in (5, 2, 2))
                asked = planted and c == here
                structure = STRUCTURES[(turn + k) % len(STRUCTURES)] if asked else ""
                single = beside and c == 0 and dtype in ("float64", "float32")
                row = examine(subject, column, structure, seed, beside=single,
                              twice=bool(twice))  # fmt: skip
                rows.append(row)
    return rows


def known(row: Row) -> str:
    """Why PyTorch's gradient is not the derivative there, or ""."""
    return KNOWN.get(row.name) or KNOWN.get(f"{row.name} {row.dtype}", "")


def false_alarms(rows: list[Row]) -> list[Row]:
    """Right rules that were accused, other than the known ones."""
    return [r for r in rows if r.verdict == "FAIL" and not known(r)]


def run(names: list[str], dtypes: tuple[str, ...], samples: int, seed: int,
        jobs: int, *, beside: bool, planted: bool = True) -> Iterator[Row]:  # fmt: skip
    """Every operator in ``names``; in this process where ``jobs`` is 1."""
    work = [(n, dtypes, samples, seed, beside, planted) for n in names]
    if jobs == 1:
        for job in work:
            yield from task(job)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for rows in pool.map(task, work, chunksize=4):
            yield from rows


def saved(paths: list[str]) -> list[Row]:
    """Rows that earlier runs have saved."""
    rows = []
    for path in paths:
        for line in Path(path).read_text().splitlines():
            row = json.loads(line)
            row["found"] = tuple(tuple(hit) for hit in row["found"])
            rows.append(Row(**row))
    return rows


def chosen(count: int, seed: int) -> list[str]:
    """``count`` names of operators, or all for 0."""
    names = sorted({op.full_name for op in operators("float64")})
    return names if count <= 0 else sorted(random.Random(seed).sample(names, count))


def report_on(rows: list[Row]) -> None:
    """Print the table, then every false alarm and why the rest is undecided."""
    print(f"{'':20}{'rules':>7}{'PASS':>6}{'FAIL':>6}{'known':>6}{'undecided':>11}"
          f"{'limit':>9}{'at 1.2 (FAIL)':>18}{'at 0.1 (FAIL)':>18}")  # fmt: skip
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.column:
            groups[(row.dtype, row.column)].append(row)
    for (dtype, column), some in groups.items():
        asked = [r for r in some if r.verdict != "REFUSED"]
        counts = Counter(r.verdict for r in asked)
        wrong = sum(r.verdict == "FAIL" and bool(known(r)) for r in asked)
        limits = [r.limit for r in asked if r.limit == r.limit]
        levels = [
            [hit for r in asked for _, at, hit in r.found if at == level]
            for level in ("1.2 x", "0.1 x")
        ]
        share = 100 * counts["UNDECIDED"] / max(1, len(asked))
        shown = "".join(
            f"{sum(map(bool, a))} ({a.count('FAIL')}) of {len(a)}".rjust(18)
            for a in levels
        )
        print(
            f"{dtype:10}{column:10}{len(asked):7}{counts['PASS']:6}"
            f"{counts['FAIL'] - wrong:6}{wrong:6}{share:9.1f} %"
            f"{median(limits) if limits else float('nan'):9.1e}{shown}"
        )
    for row in false_alarms(rows):
        print(f"ACCUSED  {row.name} ({row.dtype}, {row.column}): {row.reason}")
    for row in rows:
        for structure, level, hit in row.found:
            if level == "1.2 x" and not hit:
                print(f"MISSED   {row.name} ({row.dtype}, {row.column}): {structure}")
    for name, why in sorted({(r.name, known(r)) for r in rows if r.verdict == "FAIL"}):
        if why:
            print(f"known    {name}: {why}")
    reasons = Counter(
        (r.dtype, r.column, r.reason) for r in rows if r.verdict == "UNDECIDED"
    )
    for (dtype, column, reason), count in sorted(reasons.items()):
        some = sorted({r.name for r in rows if r.verdict == "UNDECIDED"
                       and (r.dtype, r.column, r.reason) == (dtype, column, reason)})  # fmt: skip
        print(f"undecided, {dtype} {column}: {reason}, {count}: {', '.join(some[:12])}")
    for row in rows:
        if row.verdict in ("REFUSED", "NO SAMPLE"):
            print(f"{row.verdict.lower():10}{row.name} ({row.dtype}): {row.reason}")
    for dtype in ("float64", "float32"):
        for mode in ("gradcheck", "fast"):
            said = [getattr(r, mode) for r in rows if r.dtype == dtype]
            told = dict(Counter(filter(None, said)))
            print(f"torch.autograd.gradcheck, {MODES[mode]}, {dtype}: {told}")


def main() -> int:
    """Run, print, and say by the exit code whether a right rule was accused."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--dtype", default="", help="some of them, with commas between")
    parser.add_argument("--shard", default="0/1", help="every n-th operator: i/n")
    parser.add_argument("--right", action="store_true", help="no planted errors")
    parser.add_argument("--save", default="", help="write each row to this file too")
    parser.add_argument("--rows", nargs="+", default=[], help="report on saved rows")
    options = parser.parse_args()
    started = time.perf_counter()
    few = options.sample > 0
    dtypes = ("float64", "float32") + (() if few else ("bfloat16", "float16"))
    if options.dtype:
        dtypes = tuple(options.dtype.split(","))
    first, step = map(int, options.shard.split("/"))
    names = chosen(options.sample, options.seed)[first::step]
    rows = saved(options.rows)
    if not rows:
        rows = []
        for row in run(names, dtypes, options.samples, options.seed, options.jobs,
                       beside=True, planted=not options.right):  # fmt: skip
            rows.append(row)
            if options.save:
                with Path(options.save).open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
    report_on(rows)
    count = len({row.name for row in rows})
    print(f"{count} operators, {time.perf_counter() - started:.0f} s here, "
          f"{sum(row.seconds for row in rows):.0f} s of processor time")  # fmt: skip
    return 1 if false_alarms(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
