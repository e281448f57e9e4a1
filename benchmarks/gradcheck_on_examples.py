"""What `torch.autograd.gradcheck` says of the examples at its defaults, and gradproof.

    python benchmarks/gradcheck_on_examples.py

Counts how many wrong twins each lets through, and how many right ones each passes, in
float64 and in float32: gradcheck entry by entry (slow), gradcheck with ``fast_mode=True``,
and `gradproof.check`. What is neither passed nor failed (UNDECIDED) counts as not passed.
The README's comparison quotes these numbers.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import gradproof

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "examples"))
from expected import TABLE
from loading import from_file

SETTINGS = [
    (f"{'wrong' if wrong else 'right'} {word}", dtype, wrong)
    for wrong in (False, True)
    for word, dtype in (("float64", torch.float64), ("float32", torch.float32))
]


def gradcheck(target: Any, inputs: tuple[Any, ...], *, fast: bool) -> bool:
    """Whether gradcheck returns True."""
    return torch.autograd.gradcheck(
        target.apply, inputs, raise_exception=False, fast_mode=fast
    )


ASKERS: dict[str, Callable[[Any, tuple[Any, ...]], bool]] = {
    "slow": lambda target, inputs: gradcheck(target, inputs, fast=False),
    "fast": lambda target, inputs: gradcheck(target, inputs, fast=True),
    "gradproof": lambda target, inputs: gradproof.check(target, inputs).ok,
}


def passes(example: Any, dtype: torch.dtype, asker: str, *, wrong: bool) -> bool:
    """Whether one example passes."""
    target = getattr(from_file(example.name, wrong=wrong), example.target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ASKERS[asker](target, example.draw(dtype))


def main() -> None:
    """For each setting and asker how many pass, and which wrong ones do."""
    total = len(TABLE)
    print(f"of {total} pass{'':6}" + "".join(f"{name:>12}" for name in ASKERS))
    let_through: dict[str, list[str]] = {}
    for title, dtype, wrong in SETTINGS:
        counts = ""
        for asker in ASKERS:
            names = [e.name for e in TABLE if passes(e, dtype, asker, wrong=wrong)]
            counts += f"{len(names):>12}"
            if wrong and names:
                let_through[f"{asker}, {title}"] = names
        print(f"{title:16}{counts}")
    print("\nwrong and passed:")
    for title, names in let_through.items():
        print(f"  {title}: {', '.join(names)}")


if __name__ == "__main__":
    main()
