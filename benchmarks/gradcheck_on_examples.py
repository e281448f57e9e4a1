"""What `torch.autograd.gradcheck` says of the examples, at its defaults.

    python benchmarks/gradcheck_on_examples.py

Counts the wrong twins that it lets through in float64, and the right ones that it accuses
in float32. The README's comparison quotes these numbers.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "examples"))
from expected import TABLE
from loading import from_file


def passes(example: Any, dtype: torch.dtype, *, wrong: bool) -> bool:
    """Whether gradcheck returns True for one example."""
    fn = getattr(from_file(example.name, wrong=wrong), example.target).apply
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.autograd.gradcheck(fn, example.draw(dtype), raise_exception=False)


def main() -> None:
    """Print one line for each example and the three counts."""
    double, single = torch.float64, torch.float32
    print(f"{'':16}{'right f64':>12}{'right f32':>12}{'wrong f64':>12}")
    rows = []
    for example in TABLE:
        row = (
            passes(example, double, wrong=False),
            passes(example, single, wrong=False),
            passes(example, double, wrong=True),
        )
        rows.append(row)
        words = "".join(f"{'passes' if ok else 'fails':>12}" for ok in row)
        print(f"{example.name:16}{words}")
    right, single_right, wrong = (sum(column) for column in zip(*rows, strict=True))
    total = len(rows)
    print(f"\nright, float64: {right} of {total} pass")
    print(f"right, float32: {single_right} of {total} pass")
    print(f"wrong, float64: {wrong} of {total} pass")


if __name__ == "__main__":
    main()
