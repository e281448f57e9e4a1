"""How long `import gradproof` takes, beside `import numpy`.

    python benchmarks/import_time.py [REPEATS]

Each import runs in a fresh interpreter; the least of the repeats counts, since all that
disturbs a run makes it slower. NumPy is imported by gradproof itself, so the ratio says
what gradproof adds whatever the machine. It is a figure to read, not a test: a test on a
clock fails on a busy machine.
"""

from __future__ import annotations

import subprocess
import sys

_TIMER = """
import sys, time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""


def seconds(statement: str, repeats: int) -> float:
    """The least time, in seconds, that ``statement`` took in a fresh interpreter."""
    times = []
    for _ in range(repeats):
        run = subprocess.run(
            [sys.executable, "-c", _TIMER.format(statement=statement)],
            capture_output=True,
            text=True,
            check=True,
        )
        times.append(float(run.stdout))
    return min(times)


def main() -> None:
    """Print both times and their ratio."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    numpy = seconds("import numpy", repeats)
    ours = seconds("import gradproof", repeats)
    print(f"import numpy      {numpy:.3f} s")
    print(f"import gradproof  {ours:.3f} s   {ours / numpy:.2f} times numpy")


if __name__ == "__main__":
    main()
