"""Is each known fault of a corpus named as the catalogue names its kind?

    python benchmarks/corpus_slugs.py FOLDER [NAME …]

FOLDER holds a package ``gradcorpus``. Each case runs in a process of its own, since some
faults keep state in globals. Prints one line a case, then the share that lead with a
defensible slug.
"""

from __future__ import annotations

import importlib
import multiprocessing
import pkgutil
import sys
import time
import warnings
from typing import Any

# Kind of fault → slugs that the catalogue gives it, the plainest first.
SLUGS: dict[str, tuple[str, ...]] = {
    "active_set": ("leaked-region", "wrong-at-value"),
    "adjoint_order": ("transposed-jacobian", "shifted-index", "wrong-saved-value"),
    "assign_instead_of_accumulate": ("overwritten-accumulation", "missing-term"),
    "assumes_normalised_input": ("extra-term", "missing-term"),
    "autocast_dtype": ("autocast-mismatch",),
    "boundary_bookkeeping": ("wrong-at-value", "missing-factor", "wrong-factor"),
    "broadcast_wrong_axis": ("unsummed-broadcast", "wrong-axis"),
    "cancellation_from_output": ("inaccurate", "wrong-at-value", "missing-gradient"),
    "clip_mask_missing": ("leaked-region",),
    "degenerate_eigenvalues": ("nan-gradient",),
    "double_backward_detached": ("detached-second-derivative",),
    "double_counting": ("extra-term", "wrong-factor"),
    "dropout_mask_mismatch": ("random-mismatch",),
    "dtype_specific_path": ("dtype-dependent",),
    "empty_segment_division": ("nan-gradient",),
    "eps_placement": ("forward-mismatch", "wrong-factor", "wrong-saved-value"),
    "expanded_grad_output": ("layout-assumed",),
    "float32_cancellation": ("inaccurate", "dtype-dependent"),
    "gradient_path_misrouted": ("missing-term", "extra-term"),
    "index_map": ("shifted-index", "overwritten-accumulation", "size-dependent"),
    "inplace_unmarked": ("unmarked-inplace", "mutated-input"),
    "learnable_scalar_gradient": (
        "missing-factor", "extra-term", "unsummed-broadcast", "missing-term",
    ),
    "low_precision_intermediate": ("hidden-low-precision",),
    "memory_format": ("layout-assumed",),
    "missing_conjugate": ("missing-conjugate",),
    "missing_diagonal_half": ("missing-term", "extra-term", "wrong-factor"),
    "missing_inner_derivative": ("missing-factor", "missing-term"),
    "missing_product_rule_term": ("missing-term", "missing-factor"),
    "mutates_grad_output": ("mutated-cotangent",),
    "nan_at_infinite_input": ("nan-gradient",),
    "nan_at_kink": ("nan-gradient",),
    "noncontiguous_input": ("layout-assumed",),
    "none_for_needed_input": ("missing-gradient",),
    "nonlinear_in_upstream": ("nonlinear-cotangent",),
    "optional_arg_branch": ("missing-gradient", "missing-term"),
    "output_gradient_ignored": ("ignored-output",),
    "overlapping_accumulation": ("overwritten-accumulation",),
    "padding_leak": ("size-dependent", "leaked-region", "extra-term"),
    "padding_mismatch": ("size-dependent", "shifted-index", "unwritten-region"),
    "partial_initialisation": ("unwritten-region", "missing-gradient"),
    "partial_requires_grad": ("subset-dependent",),
    "partial_upstream": ("dropped-cotangent", "nonlinear-cotangent"),
    "rank_assumption": ("size-dependent", "wrong-axis", "missing-term"),
    "side_effect_on_grad": ("accumulates-in-place", "extra-term"),
    "size_dependent_path": ("size-dependent", "unsummed-broadcast"),
    "special_branch_constant": ("wrong-at-value", "wrong-factor", "wrong-sign"),
    "stale_forward_state": ("stale-state",),
    "static_grad_buffer": ("reused-buffer",),
    "storage_offset_ignored": ("layout-assumed",),
    "unequal_group_weighting": (
        "wrong-factor", "missing-term", "extra-term", "size-dependent",
    ),
    "uninitialised_gradient": ("unwritten-region", "nondeterministic"),
    "upstream_read_as_scalar": ("cotangent-read-as-scalar",),
    "vmap_rule_wrong": ("wrong-vmap",),
    "where_nan_trap": ("nan-gradient",),
    "world_size_scaling": ("wrong-factor",),
    "wrong_constant_factor": ("wrong-factor",),
    "wrong_only_batch_gt1": (
        "size-dependent", "overwritten-accumulation", "unsummed-broadcast",
        "wrong-saved-value", "unwritten-region",
    ),
    "wrong_saved_tensor": ("wrong-saved-value", "forward-mismatch"),
    "zeros_for_needed_input": ("missing-gradient",),
}  # fmt: skip


def _one(folder: str, name: str, which: str, dtype: str, pipe: Any) -> None:
    """Check one case and send "VERDICT [(slug, severity), …]" and the report."""
    import torch

    import gradproof

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    case = next(c for c in _cases(folder) if c.name == name)
    make = case.make_trigger_inputs if which == "trigger" else case.make_inputs
    orders = 2 if case.needs == "second_order" else 1
    try:
        report = gradproof.check(case.buggy, make(getattr(torch, dtype)), orders=orders)
        found = [(f.slug, str(f.severity)) for f in report.findings]
        pipe.send((str(report.verdict), found, str(report)))
    except Exception as error:  # a crash is a result of this benchmark
        pipe.send((f"CRASH {type(error).__name__}: {error}", [], ""))


def _cases(folder: str) -> list[Any]:
    if folder not in sys.path:
        sys.path.insert(0, folder)
    package = importlib.import_module("gradcorpus")
    for module in pkgutil.walk_packages(package.__path__, "gradcorpus."):
        importlib.import_module(module.name)
    found: list[Any] = package.cases("buggy")
    return found


def ask(folder: str, name: str, which: str, dtype: str) -> tuple[str, list[Any], str]:
    """One case in a process of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_one, args=(folder, name, which, dtype, theirs))
    process.start()
    answer = ours.recv() if ours.poll(300) else ("TIMEOUT", [], "")
    process.join(5)
    if process.is_alive():
        process.terminate()
    return answer


def main(folder: str, only: list[str]) -> int:
    """Ask every case at its plain and its trigger inputs; 0 when 92 % are named."""
    found = named = 0
    for case in _cases(folder):
        if only and case.name not in only:
            continue
        expected = SLUGS.get(case.kind, ())
        started = time.perf_counter()
        plans = [("plain", "float64")]
        if any(q == "f32" for q in case.shows_in):
            plans.append(("plain", "float32"))
        if case.make_trigger_inputs is not None:
            precise = any(q.startswith("f32") for q in case.shows_in)
            plans.append(("trigger", "float32" if precise else "float64"))
        answers = [ask(folder, case.name, *plan) for plan in plans]
        leads = [next((s for s, w in a[1] if w != "note"), "") for a in answers]
        failed = [a for a, b in zip(leads, answers, strict=True) if b[0] == "FAIL"]
        lead = next((a for a in (*failed, *leads) if a), "")
        found += bool(lead)
        named += lead in expected
        mark = "ok  " if lead in expected else ("    " if not lead else "NOT ")
        seconds = time.perf_counter() - started
        shown = [(a[0], *(s for s, w in a[1] if w != "note")) for a in answers]
        print(f"{mark}{case.name} ({case.kind}) {seconds:.1f}s {shown}", flush=True)
        if only:
            print(*(a[2] for a in answers), sep="\n\n")
    print(f"{named} of {found} found are named as their kind")
    return 0 if named >= 0.92 * found else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
