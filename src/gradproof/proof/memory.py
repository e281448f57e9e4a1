"""Does the question fit in memory? Estimated before anything of its size is made."""

from __future__ import annotations

from pathlib import Path

from gradproof.errors import UsageError
from gradproof.rule import Rule

# Float64 vectors of the size of inputs or outputs that a proof holds at its peak, as
# benchmarks/speed.py and planted errors measure it: on arrays, and on vectors, which
# whatever looks odd is asked by.
SHORT_WAY, LONG_WAY = 16, 56
ALWAYS = 1 << 28  # bytes that are never refused: the estimate is for large problems
MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")

TOO_LARGE = (
    "{name} has {n} entries in its inputs and {m} in its outputs, which takes about "
    "{needed:.1f} GB to check, and {free:.1f} GB are free; up to about {most} entries in "
    "all fit, so check a smaller shape"
)
ODD = "something disagrees, and what it is takes more memory: "


def refuse_too_large(rule: Rule, vectors: int) -> None:
    """Raise where the proof of ``rule`` would need more memory than is free.

    Raises:
        UsageError: it names the size that fits.
    """
    n, m = rule.primal.domain.size, rule.primal.codomain.size
    needed = 8 * vectors * (n + m)
    if needed <= ALWAYS:
        return
    free = free_bytes()
    if free is None or needed <= free:
        return
    most = free // (8 * vectors)
    rounded = 10 ** max(0, len(str(most)) - 2)  # down, to two digits
    why = ODD if vectors == LONG_WAY and rule.bulk() is not None else ""
    raise UsageError(
        why
        + TOO_LARGE.format(
            name=rule.source.name,
            n=n,
            m=m,
            needed=needed / 1e9,
            free=free / 1e9,
            most=most // rounded * rounded,
        )
    )


def free_bytes() -> int | None:
    """Memory that may still be taken; None where the system does not tell."""
    known = [a for a in (_of_machine(), _of_group()) if a is not None]
    return min(known, default=None)


def _of_machine() -> int | None:
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_group() -> int | None:
    """What a container may still take."""
    try:
        most = (GROUP / "memory.max").read_text(encoding="ascii").strip()
        now = (GROUP / "memory.current").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return max(0, int(most) - int(now)) if most.isdigit() and now.isdigit() else None
