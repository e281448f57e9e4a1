"""Flagged, accused and named over a folder of buggy/fixed gradients.

usage: python benchmarks/corpus.py FOLDER [--dtype float64] [--only NAME] [--orders 2] [-v]

FOLDER holds a package ``gradcorpus`` whose cases have ``buggy``, ``fixed``,
``make_inputs(dtype)`` and ``make_trigger_inputs(dtype)``. Every case runs in a process of
its own. A pair counts when the buggy form FAILs and the fixed form does not, on the same
inputs. ``--orders 2`` proves the second order of every case, wrong or right, and not
only of those that are wrong there; forward mode and vmap are asked in any case.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import time
import traceback


def one(case, dtype, which, orders):
    """Verdict, leading slug and seconds of one form of one case."""
    import gradproof

    fn = getattr(case, which)
    out = {}
    for tag, make in (
        ("inputs", case.make_inputs),
        ("trigger", case.make_trigger_inputs),
    ):
        if make is None:
            continue
        options = {
            "ways": not os.environ.get("NOWAYS"),
            "orders": 2 if case.needs == "second_order" else orders,
        }
        clock = time.perf_counter()
        try:
            report = gradproof.check(fn, make(dtype), **options)
            errors = [f for f in report.findings if f.severity == "error"]
            out[tag] = {
                "verdict": str(report.verdict),
                "slugs": [f.slug for f in report.findings],
                "errors": [f.slug for f in errors],
                "undecided": [u.reason for u in report.record.undecided],
                "headline": report.findings[0].headline if report.findings else "",
            }
        except gradproof.GradproofError as error:
            out[tag] = {"verdict": "USAGE", "slugs": [], "headline": str(error)[:300]}
        except Exception:
            out[tag] = {
                "verdict": "CRASH",
                "slugs": [],
                "headline": traceback.format_exc()[-1500:],
            }
        out[tag]["seconds"] = round(time.perf_counter() - clock, 3)
    return out


def forked(call):
    """``call()`` in a child process; its result comes back as JSON."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            text = json.dumps(call())
        except BaseException as error:
            text = json.dumps(
                {
                    "inputs": {
                        "verdict": "DIED",
                        "slugs": [],
                        "headline": repr(error)[:300],
                        "seconds": 0,
                    }
                }
            )
        with os.fdopen(write, "w") as pipe:
            pipe.write(text)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return (
        json.loads(text)
        if text
        else {
            "inputs": {
                "verdict": "DIED",
                "slugs": [],
                "headline": "the process died",
                "seconds": 0,
            }
        }
    )


def warm_up():
    """A custom gradient whose check loads all that checks load, before forking."""
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    return Double


def main() -> int:
    """Run the corpus and print the table and its totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--only", default="")
    parser.add_argument("--group", default="")
    parser.add_argument("--orders", type=int, choices=(1, 2), default=1)
    parser.add_argument("--json", default="")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, options.folder)
    import torch
    from gradcorpus import cases

    import gradproof

    torch.set_num_threads(1)
    gradproof.check(warm_up(), torch.ones(2, dtype=torch.float64))
    dtype = getattr(torch, options.dtype)
    rows = {}
    for case in cases():
        if options.only and options.only not in case.name:
            continue
        if options.group and options.group != case.group:
            continue
        if dtype not in case.dtypes:
            continue
        forms = ("buggy", "fixed") if case.group == "buggy" else ("fixed",)
        rows[case.name] = {"group": case.group, "kind": case.kind, "needs": case.needs}
        for form in forms:
            rows[case.name][form] = forked(
                lambda c=case, f=form: one(c, dtype, f, options.orders)
            )
        report(case.name, rows[case.name], options.verbose)
    totals(rows)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 0


def report(name, row, verbose):
    """One line a case; with -v the headline too."""
    parts = []
    for form in ("buggy", "fixed"):
        for tag, r in row.get(form, {}).items():
            parts.append(
                f"{form}/{tag}={r['verdict']}[{','.join(r['slugs'][:2]) or ','.join(r.get('undecided', []))}] {r['seconds']}s"
            )
    print(
        f"{row['group'][:5]:5} {row['needs']:14} {name:45} {' | '.join(parts)}",
        flush=True,
    )
    if verbose:
        for form in ("buggy", "fixed"):
            for tag, r in row.get(form, {}).items():
                if r["headline"]:
                    print(f"        {form}/{tag}: {r['headline']}")


def totals(rows):
    """Flagged by what a case needs, accused, and UNDECIDED."""
    flagged, total = collections.Counter(), collections.Counter()
    accused, undecided = [], []
    for name, row in rows.items():
        for form, results in ((f, row.get(f, {})) for f in ("buggy", "fixed")):
            for tag, r in results.items():
                if form == "fixed" and row["group"] != "intentional":
                    if r["verdict"] in ("FAIL", "USAGE", "CRASH", "DIED"):
                        accused.append(f"{name}/{tag}:{r['verdict']}")
                    elif r["verdict"] == "UNDECIDED":
                        undecided.append(f"{name}/{tag}")
        if row["group"] == "buggy":
            total[row["needs"]] += 1
            hit = any(
                r["verdict"] == "FAIL" and row["fixed"][tag]["verdict"] != "FAIL"
                for tag, r in row["buggy"].items()
            )
            flagged[row["needs"]] += hit
        elif row["group"] == "intentional":
            total["(intentional)"] += 1
            flagged["(intentional)"] += row["fixed"]["inputs"]["verdict"] == "FAIL"
    print()
    for needs in sorted(total):
        print(f"{needs:16} {flagged[needs]:3} of {total[needs]:3}")
    print(f"{'accused':16} {len(accused):3} {accused}")
    print(f"{'undecided':16} {len(undecided):3} {undecided}")


if __name__ == "__main__":
    raise SystemExit(main())
